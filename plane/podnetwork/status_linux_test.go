package podnetwork

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	proxymetrics "github.com/planekit/planekit/service/proxy/metrics"
)

// TestStatus: the metrics of the proxy and its mode are served until the context ends.
func TestStatus(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(proxymetrics.New())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1) // one answer
	go func() { ended <- serve(ctx, listener, metricsHandler(registry), logr.Discard()) }()
	get := func(path string) (int, string) {
		answer, err := http.Get("http://" + listener.Addr().String() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	if code, body := get("/metrics"); code != http.StatusOK || !strings.Contains(body, "kubeproxy_sync_proxy_rules_last_timestamp_seconds") {
		t.Errorf("/metrics: %d %s", code, body)
	}
	if code, body := get("/proxyMode"); code != http.StatusOK || body != "nftables" {
		t.Errorf("/proxyMode: %d %s", code, body)
	}
	if code, _ := get("/other"); code != http.StatusNotFound {
		t.Errorf("/other: %d", code)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
