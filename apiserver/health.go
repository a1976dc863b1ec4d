package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver/internal/reply"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
)

// checkTimeout bounds each health check.
const checkTimeout = 2 * time.Second

// health answers whether the server is well.
type health struct {
	config  *Config
	unready context.Context // done when the server begins to wind up
	replies *reply.Writer
}

// checks are the named conditions of a health endpoint. The server is live as
// long as it answers; it is ready while its storage answers too, it is not
// winding up, and what the configuration adds is well.
func (h *health) checks(endpoint string) []Check {
	ping := Check{"ping", func(context.Context) error { return nil }}
	if endpoint == "livez" {
		return []Check{ping}
	}
	all := []Check{ping, {"storage", h.checkStorage}}
	if endpoint == "readyz" {
		all = append(all, Check{"shutdown", func(context.Context) error { return h.unready.Err() }})
	}
	return append(all, h.config.Checks...)
}

func (h *health) checkStorage(ctx context.Context) error {
	_, err := h.config.Store.Get(ctx, storage.Key(h.config.Prefix+"/health"), 0)
	if errors.Is(err, storage.ErrNotFound) {
		return nil
	}
	return err
}

// serve serves /livez, /readyz and /healthz, whole or check by check.
func (h *health) serve(w http.ResponseWriter, r *http.Request, segments []string) error {
	endpoint := segments[0]
	checks := h.checks(endpoint)
	excluded := r.URL.Query()["exclude"]
	if len(segments) > 1 {
		only := strings.Join(segments[1:], "/")
		checks = selectChecks(checks, func(name string) bool { return name == only })
		if len(checks) == 0 {
			return wire.ErrNoPath
		}
	}
	checks = selectChecks(checks, func(name string) bool {
		for _, e := range excluded {
			if e == name {
				return false
			}
		}
		return true
	})
	var text strings.Builder
	failed := false
	for _, check := range checks {
		ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
		err := check.Check(ctx)
		cancel()
		if checked := h.config.Hooks.Checked; checked != nil {
			checked(endpoint, check.Name, err)
		}
		if err == nil {
			fmt.Fprintf(&text, "[+]%s ok\n", check.Name)
			continue
		}
		failed = true
		h.config.Log.Error(err, "health check failed", "endpoint", endpoint, "check", check.Name)
		fmt.Fprintf(&text, "[-]%s failed: reason withheld\n", check.Name)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	media := "text/plain; charset=utf-8"
	_, verbose := r.URL.Query()["verbose"]
	switch {
	case failed:
		h.replies.Bytes(w, r, http.StatusInternalServerError, media, []byte(text.String()+endpoint+" check failed\n"))
	case verbose:
		h.replies.Bytes(w, r, http.StatusOK, media, []byte(text.String()+endpoint+" check passed\n"))
	default:
		h.replies.Bytes(w, r, http.StatusOK, media, []byte("ok"))
	}
	return nil
}

func selectChecks(checks []Check, keep func(name string) bool) []Check {
	var kept []Check
	for _, c := range checks {
		if keep(c.Name) {
			kept = append(kept, c)
		}
	}
	return kept
}
