package main

import (
	"net/http"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/metrics"
)

// observe adds /metrics to the API server, and to what it is asked for.
func observe(config *apiserver.Config) *metrics.Metrics {
	m := metrics.New()
	config.Hooks = m.Hooks()
	config.Store = m.Store(config.Store)
	config.Handlers = map[string]http.Handler{"/metrics": m.Handler()}
	return m
}
