"""The contract's endpoints (sections 3 and 7), each a few lines: who may, what is said, what the store answers."""

from starlette.responses import Response

from memfs.model.errors import InvalidRequest, NotFound
from memfs.model.ids import ApiKeyId, MemoryId, SessionId
from memfs.model.objects import Page, Store
from memfs.server.calls import Call, in_thread
from memfs.server.sessions import attach
from memfs.server.wire import CreateMemory, CreateSession, CreateStore, UpdateMemory, UpdateStore

# Stores


async def create_store(call: Call) -> Response:
    call.principal.check_administrator()
    body = await call.body(CreateStore)
    return call.answer(
        await call.service.create_store(body.name, description=body.description or "", metadata=body.metadata or {})
    )


async def list_stores(call: Call) -> Response:
    query = call.query
    if call.principal.attachments is not None:
        return call.answer(await _attached_stores(call))
    return call.answer(
        await call.service.list_stores(
            include_archived=query.flag("include_archived"),
            created_at_gte=query.time("created_at[gte]"),
            created_at_lte=query.time("created_at[lte]"),
            limit=query.limit(),
            page=query.text("page"),
        )
    )


async def _attached_stores(call: Call) -> Page[Store]:
    """The listing for a session: of what it attaches. A cursor is the id of the last store shown."""
    query = call.query
    since, until, archived = query.time("created_at[gte]"), query.time("created_at[lte]"), query.flag("include_archived")
    limit, page = query.limit(), query.text("page")
    stores = []
    for store_id in call.principal.attachments or ():
        try:
            stores.append(await call.service.retrieve_store(store_id))
        except NotFound:
            continue  # deleted since the session began
    stores.sort(key=lambda store: (store.created_at, store.id), reverse=True)
    if page is not None:
        places = [place for place, store in enumerate(stores) if page == f"page_{store.id}"]
        if not places:
            raise InvalidRequest("page is not a cursor of this list: begin again without page")
        stores = stores[places[0] + 1 :]
    shown = [
        store
        for store in stores
        if (archived or store.archived_at is None)
        and (since is None or store.created_at >= since)
        and (until is None or store.created_at <= until)
    ]
    return Page(data=shown[:limit], next_page=f"page_{shown[limit - 1].id}" if len(shown) > limit else None)


async def retrieve_store(call: Call) -> Response:
    return call.answer(await call.service.retrieve_store(call.store_id()))


async def update_store(call: Call) -> Response:
    store_id = call.store_id()
    call.principal.check_administrator()
    body = await call.body(UpdateStore)
    return call.answer(
        await call.service.update_store(store_id, name=body.name, description=body.description, metadata=body.metadata)
    )


async def delete_store(call: Call) -> Response:
    store_id = call.store_id()
    call.principal.check_administrator()
    return call.answer(await call.service.delete_store(store_id))


async def archive_store(call: Call) -> Response:
    store_id = call.store_id()
    call.principal.check_administrator()
    return call.answer(await call.service.archive_store(store_id))


# Memories


async def create_memory(call: Call) -> Response:
    store_id = call.store_id(write=True)
    body = await call.body(CreateMemory)
    return call.answer(await call.service.create_memory(store_id, body.path, body.content, view=call.query.view("basic")))


async def list_memories(call: Call) -> Response:
    query = call.query
    return call.answer(
        await call.service.list_memories(
            call.store_id(),
            path_prefix=query.text("path_prefix"),
            depth=query.depth(),
            limit=query.limit(),
            page=query.text("page"),
            view=query.view("basic"),
        )
    )


async def retrieve_memory(call: Call) -> Response:
    return call.answer(await call.service.retrieve_memory(call.store_id(), call.memory_id, view=call.query.view("full")))


async def update_memory(call: Call) -> Response:
    store_id = call.store_id(write=True)
    body = await call.body(UpdateMemory)
    return call.answer(
        await call.service.update_memory(
            store_id,
            call.memory_id,
            content=body.content,
            path=body.path,
            precondition=body.expected(),
            view=call.query.view("basic"),
        )
    )


async def delete_memory(call: Call) -> Response:
    store_id = call.store_id(write=True)
    expected = call.query.sha256("expected_content_sha256")
    return call.answer(await call.service.delete_memory(store_id, call.memory_id, expected_content_sha256=expected))


# Versions


async def list_versions(call: Call) -> Response:
    query = call.query
    return call.answer(
        await call.service.list_versions(
            call.store_id(),
            memory_id=query.id(MemoryId, "memory_id"),
            operation=query.operation(),
            session_id=query.id(SessionId, "session_id"),
            api_key_id=query.id(ApiKeyId, "api_key_id"),
            service_account_id=query.text("service_account_id"),
            created_at_gte=query.time("created_at[gte]"),
            created_at_lte=query.time("created_at[lte]"),
            limit=query.limit(),
            page=query.text("page"),
            view=query.view("basic"),
        )
    )


async def retrieve_version(call: Call) -> Response:
    return call.answer(await call.service.retrieve_version(call.store_id(), call.version_id, view=call.query.view("full")))


async def redact_version(call: Call) -> Response:
    store_id = call.store_id()
    call.principal.check_administrator()
    return call.answer(await call.service.redact_version(store_id, call.version_id))


# Sessions


async def create_session(call: Call) -> Response:
    """No token comes with it, as in the contract: `memfs sessions token` makes one where the database is."""
    call.principal.check_administrator()
    body = await call.body(CreateSession)
    resources = await attach(call.service, body.resources or [])
    keyring = call.backend.keyring
    agent = body.agent if isinstance(body.agent, dict) else {} if body.agent is None else {"type": "agent", "id": body.agent}
    return call.answer(
        await in_thread(
            keyring.create_session,
            resources,
            title=body.title,
            metadata=body.metadata,
            agent=agent,
            environment_id=body.environment_id or "",
            vault_ids=body.vault_ids,
        )
    )


async def retrieve_session(call: Call) -> Response:
    if call.principal.session_id not in (None, call.session_id):
        raise NotFound("session not found")
    return call.answer(await in_thread(call.backend.keyring.retrieve_session, call.session_id))
