# syntax=docker/dockerfile:1
# The wheel is built in one stage and installed in the other: no source, no compiler and no pip cache in the image.
# Every Python package has the version that deploy/constraints.txt says. The base follows Python 3.11's fixes; for an
# image that is the same tomorrow: --build-arg PYTHON=python:3.11-slim-bookworm@sha256:...
ARG PYTHON=python:3.11-slim-bookworm

FROM ${PYTHON} AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY deploy/constraints.txt deploy/constraints.txt
COPY gateway gateway
COPY router_strategies router_strategies
COPY loadtest loadtest
RUN --mount=type=cache,target=/root/.cache/pip \
    pip wheel --constraint deploy/constraints.txt --wheel-dir /wheels ".[hub,redis]"

FROM ${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="Prefixway" \
      org.opencontainers.image.description="A prefix-aware routing gateway for fleets of vLLM replicas" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links=/wheels "prefixway[hub,redis]" \
    && groupadd --gid 65532 prefixway \
    && useradd --uid 65532 --gid 65532 --home-dir /tmp --no-create-home --shell /usr/sbin/nologin prefixway
# Numbers: Kubernetes' runAsNonRoot knows no names.
USER 65532:65532
# Only /tmp need be writable: for tokenizers that are downloaded, and for sockets between worker processes.
ENV HOME=/tmp HF_HOME=/tmp/huggingface PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
EXPOSE 8080 9464
# SIGTERM: serve for PREFIXWAY_LINGER_S more, then let answers end for PREFIXWAY_DRAIN_S. Give `docker stop` longer.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 CMD ["prefixway", "alive"]
ENTRYPOINT ["prefixway"]
CMD ["serve"]
