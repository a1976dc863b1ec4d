package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/audit"
	"github.com/planekit/planekit/plane"
)

// observe adds /metrics to the API server, and to what it is asked for, and the
// audit log where there is one.
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
	if c.options.auditPolicy == "" {
		return nil
	}
	auditor, err := c.startAudit()
	config.Auditor = auditor
	return err
}

// startAudit opens the audit log and starts writing it. It outlives the API
// server, so that no request's end is missing.
func (c *cluster) startAudit() (*audit.Log, error) {
	text, err := os.ReadFile(c.options.auditPolicy)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy-file: %w", err)
	}
	policy, err := audit.ParsePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("--audit-policy-file: %w", err)
	}
	out := io.WriteCloser(os.Stdout)
	if path := c.options.auditLog; path != "-" {
		if out, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, fmt.Errorf("--audit-log-path: %w", err)
		}
		c.stack.OnStop("audit file", out.Close)
	}
	log, err := audit.New(audit.Config{Policy: policy, Out: out, Log: c.log.WithName("audit")})
	if err != nil {
		return nil, err
	}
	c.stack.Start("audit log", log.Run)
	return log, nil
}
