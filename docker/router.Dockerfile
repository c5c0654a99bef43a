# An i2pd of a private I2P network, from Debian; see docker/compose.yaml and docs/how-to/containers.md. Not for the real I2P.
# Build it from the root of the repository: docker build -f docker/router.Dockerfile .
ARG BASE=debian:12.11-slim

FROM ${BASE}
# Debian's i2pd gets security fixes by newer packages of the same release: the release is pinned by the tag above.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install -y --no-install-recommends i2pd \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/log/* /var/lib/i2pd /etc/i2pd \
 && groupadd --gid 10001 router \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/router --shell /usr/sbin/nologin router \
 && install -d -o router -g router -m 700 /var/lib/router /var/lib/introductions
COPY --chmod=444 integration/testnet/i2pd.conf /usr/share/router/i2pd.conf
COPY --chmod=555 docker/router.sh /usr/local/bin/router
LABEL org.opencontainers.image.title="gf-i2p router" \
      org.opencontainers.image.description="i2pd of a private I2P network, for tests" \
      org.opencontainers.image.licenses="MIT" \
      org.opencontainers.image.base.name="debian:12.11-slim"
USER 10001:10001
WORKDIR /var/lib/router
ENTRYPOINT ["/usr/local/bin/router"]
CMD ["run"]
HEALTHCHECK --interval=30s --timeout=10s --start-period=2m CMD ["/usr/local/bin/router", "healthy"]
