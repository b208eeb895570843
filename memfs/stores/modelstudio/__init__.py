"""Model Studio's managed agents (``modelstudio+https://WORKSPACE.REGION.maas.aliyuncs.com/api/v1/agentstudio``)."""

from memfs.stores.modelstudio.store import ModelStudioMemoryStore, open_modelstudio

__all__ = ["ModelStudioMemoryStore", "open_modelstudio"]
