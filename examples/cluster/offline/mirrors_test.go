package offline

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestReachable: any answer counts, also a refusal.
func TestReachable(t *testing.T) {
	t.Setenv("NO_PROXY", "127.0.0.1")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	if !Reachable(t.Context(), server.URL) {
		t.Error("a registry that asks for credentials is not reachable")
	}
	server.Close()
	if Reachable(t.Context(), server.URL) {
		t.Error("a registry that is gone is reachable")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if Reachable(ended, server.URL) || Reachable(t.Context(), "::") {
		t.Error("nothing is reachable")
	}
}
