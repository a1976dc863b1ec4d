package metrics_test

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/planekit/planekit/service/dns"
	"github.com/planekit/planekit/service/dns/metrics"
	"github.com/prometheus/client_golang/prometheus"
)

// The series of a server that gave one answer.
func Example() {
	m := metrics.New("dns://:53", ".")
	registry := prometheus.NewRegistry()
	registry.MustRegister(m)
	meters := m.Meters()
	meters.Answered(dns.Answer{Zone: ".", Protocol: "udp", Family: "1", Type: "A", Rcode: "NOERROR", DNSSEC: true, Took: time.Millisecond})
	meters.Cached(false, false)
	meters.Cached(true, true)
	meters.Stored(1, 0, 1)
	meters.Forwarded(netip.MustParseAddrPort("192.0.2.1:53"), "NOERROR", time.Millisecond)
	meters.Rejected()
	meters.Programmed(time.Second)
	families, err := registry.Gather()
	if err != nil {
		fmt.Println(err)
	}
	for _, f := range families {
		fmt.Print(f.GetName())
		for _, l := range f.GetMetric()[0].GetLabel() {
			fmt.Printf(" %s=%q", l.GetName(), l.GetValue())
		}
		fmt.Println()
	}
	// Output:
	// coredns_cache_entries server="dns://:53" type="denial" view="" zones="."
	// coredns_cache_evictions_total server="dns://:53" type="" view="" zones="."
	// coredns_cache_hits_total server="dns://:53" type="denial" view="" zones="."
	// coredns_cache_misses_total server="dns://:53" view="" zones="."
	// coredns_cache_requests_total server="dns://:53" view="" zones="."
	// coredns_dns_do_requests_total server="dns://:53" view="" zone="."
	// coredns_dns_request_duration_seconds server="dns://:53" view="" zone="."
	// coredns_dns_request_size_bytes proto="udp" server="dns://:53" view="" zone="."
	// coredns_dns_requests_total family="1" proto="udp" server="dns://:53" type="A" view="" zone="."
	// coredns_dns_response_size_bytes proto="udp" server="dns://:53" view="" zone="."
	// coredns_dns_responses_total plugin="forward" rcode="NOERROR" server="dns://:53" view="" zone="."
	// coredns_forward_max_concurrent_rejects_total
	// coredns_kubernetes_dns_programming_duration_seconds service_kind="headless_with_selector"
	// coredns_proxy_request_duration_seconds proxy_name="forward" rcode="NOERROR" to="192.0.2.1:53"
	// planekit_dns_connections_refused_total
}
