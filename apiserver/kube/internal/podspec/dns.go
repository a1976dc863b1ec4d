package podspec

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What a resolver takes (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#dns-search-domain-list-limits).
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchBytes = 2048
)

func checkDNS(ps *check.Problems, p *field.Path, spec *corev1.PodSpec) {
	dns := spec.DNSConfig
	if spec.DNSPolicy == corev1.DNSNone {
		switch {
		case dns == nil:
			ps.Add(field.Required(p, "must provide `dnsConfig` when `dnsPolicy` is None"))
			return
		case len(dns.Nameservers) == 0:
			ps.Add(field.Required(p.Child("nameservers"), "must provide at least one DNS nameserver when `dnsPolicy` is None"))
			return
		}
	}
	if dns == nil {
		return
	}
	servers, searches := p.Child("nameservers"), p.Child("searches")
	ps.Valid(len(dns.Nameservers) <= maxNameservers,
		servers, dns.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxNameservers))
	for i, ip := range dns.Nameservers {
		ps.All(validation.IsValidIPForLegacyField(servers.Index(i), ip, true, nil))
	}
	ps.Valid(len(dns.Searches) <= maxSearches,
		searches, dns.Searches, fmt.Sprintf("must not have more than %v search paths", maxSearches))
	ps.Valid(len(strings.Join(dns.Searches, " ")) <= maxSearchBytes,
		searches, dns.Searches, fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", maxSearchBytes))
	for i, search := range dns.Searches {
		if search != "." {
			domain := strings.TrimSuffix(search, ".")
			ps.Each(searches.Index(i), domain, validation.IsDNS1123SubdomainWithUnderscore(domain))
		}
	}
	for i, o := range dns.Options {
		ps.Present(o.Name != "", p.Child("options").Index(i), "must not be empty")
	}
}
