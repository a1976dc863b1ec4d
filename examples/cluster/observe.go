package main

import (
	"maps"
	"net/http"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/plane"
)

// observe adds metrics, profiles and checks of the store to the API server.
func (c *cluster) observe(_ *plane.Plane, config *apiserver.Config) error {
	m := c.metrics
	config.Hooks = m.Hooks()
	config.Store = m.Store(config.Store)
	handlers := map[string]http.Handler{"/metrics": m.Handler()}
	maps.Copy(handlers, c.options.profiles())
	maps.Copy(handlers, config.Handlers)
	config.Handlers = handlers
	config.Checks = c.checks
	m.FlowControl(config.FlowControl)
	return nil
}
