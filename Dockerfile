# A small image with memfs. UNTESTED: no container engine was at hand where this was written.
#
#   docker build -t memfs .
#   docker run --rm --device /dev/fuse --cap-add SYS_ADMIN --security-opt apparmor=unconfined \
#       --mount type=bind,source=/mnt/memory,target=/mnt/memory,bind-propagation=rshared -e MEMFS_URL -e MEMFS_API_KEY memfs
#   docker run --rm --user 10001 -v memory:/mnt/memory -e MEMFS_URL -e MEMFS_API_KEY memfs shadow -f /mnt/memory    # no privileges
#   docker run --rm -p 38080:38080 -v stores:/var/lib/memfs memfs serve --listen 0.0.0.0:38080

FROM python:3.13-slim AS build
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends gcc libc6-dev libfuse3-dev pkg-config >/dev/null \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY memfs memfs
RUN python -m venv /opt/memfs && /opt/memfs/bin/pip install --quiet --no-cache-dir ".[server,postgresql]"

FROM python:3.13-slim
RUN apt-get update -qq \
    && apt-get install -y -qq --no-install-recommends fuse3 >/dev/null \
    && rm -rf /var/lib/apt/lists/* \
    && echo user_allow_other >>/etc/fuse.conf \
    && useradd --uid 10001 --create-home --home-dir /var/lib/memfs memfs \
    && install -d -o memfs -g memfs /mnt/memory
COPY --from=build /opt/memfs /opt/memfs
ENV PATH=/opt/memfs/bin:$PATH \
    XDG_STATE_HOME=/var/lib XDG_DATA_HOME=/var/lib XDG_CACHE_HOME=/var/cache
RUN memfs setup-system >/dev/null && install -d -o memfs -g memfs /var/cache/memfs
VOLUME /var/lib/memfs
# serve and shadow need no privileges and no root; a mount that others see needs the capability above, which only root can use
# without the set-uid helper.
USER memfs
ENTRYPOINT ["memfs"]
CMD ["mount", "--foreground", "--allow-other", "/mnt/memory"]
