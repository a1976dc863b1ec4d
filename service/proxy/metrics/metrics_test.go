package metrics_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/planekit/planekit/service/proxy/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// The series of a proxy that wrote once.
func Example() {
	m := metrics.New()
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	meters := m.Meters()
	meters.Queued()
	meters.Synced(3*time.Millisecond, true)
	meters.Programmed(time.Second)
	meters.NoLocalEndpoints(1, 0)
	meters.Health("/healthz", 200)
	meters.Health("/livez", 503)
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Println(name)
	}
	// Output:
	// kubeproxy_conntrack_reconciler_deleted_entries_total
	// kubeproxy_network_programming_duration_seconds
	// kubeproxy_proxy_healthz_total
	// kubeproxy_proxy_livez_total
	// kubeproxy_sync_full_proxy_rules_duration_seconds
	// kubeproxy_sync_partial_proxy_rules_duration_seconds
	// kubeproxy_sync_proxy_rules_duration_seconds
	// kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds
	// kubeproxy_sync_proxy_rules_last_timestamp_seconds
	// kubeproxy_sync_proxy_rules_nftables_sync_failures_total
	// kubeproxy_sync_proxy_rules_no_local_endpoints_total
	// planekit_proxy_conntrack_entries
	// planekit_proxy_conntrack_limit
	// planekit_proxy_repaired_total
}
