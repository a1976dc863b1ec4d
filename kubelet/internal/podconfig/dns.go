package podconfig

import (
	"bufio"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// dnsConfig returns the resolver configuration of a pod by its policy. Without a cluster resolver,
// ClusterFirst equals Default, the host's configuration.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
func (b *Builder) dnsConfig(pod *corev1.Pod) (*runtimeapi.DNSConfig, error) {
	policy := pod.Spec.DNSPolicy
	clusterFirst := policy == corev1.DNSClusterFirstWithHostNet || policy == corev1.DNSClusterFirst && !pod.Spec.HostNetwork
	dns := &runtimeapi.DNSConfig{}
	if policy != corev1.DNSNone {
		text, err := os.ReadFile(b.ResolvConf)
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		dns = parseResolvConf(string(text))
	}
	if clusterFirst && len(b.ClusterDNS) > 0 {
		domain := b.ClusterDomain
		dns.Servers = b.ClusterDNS
		dns.Searches = append([]string{pod.Namespace + ".svc." + domain, "svc." + domain, domain}, dns.Searches...)
		dns.Options = []string{"ndots:5"}
	}
	if own := pod.Spec.DNSConfig; own != nil {
		dns.Servers = union(dns.Servers, own.Nameservers)
		dns.Searches = union(dns.Searches, own.Searches)
		dns.Options = mergeOptions(dns.Options, own.Options)
	}
	return dns, nil
}

// mergeOptions adds a pod's options, of which each replaces the earlier ones of its name.
func mergeOptions(options []string, own []corev1.PodDNSConfigOption) []string {
	last := map[string]int{}
	for i := range own {
		last[own[i].Name] = i
	}
	merged := slices.DeleteFunc(slices.Clone(options), func(o string) bool {
		name, _, _ := strings.Cut(o, ":")
		_, replaced := last[name]
		return replaced
	})
	for i, option := range own {
		if last[option.Name] != i {
			continue
		}
		text := option.Name
		if option.Value != nil {
			text += ":" + *option.Value
		}
		merged = append(merged, text)
	}
	return merged
}

// parseResolvConf parses resolv.conf(5). The last search line is used.
func parseResolvConf(text string) *runtimeapi.DNSConfig {
	dns := &runtimeapi.DNSConfig{}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || strings.ContainsAny(fields[0][:1], "#;") {
			continue
		}
		switch fields[0] {
		case "nameserver":
			dns.Servers = append(dns.Servers, fields[1])
		case "search":
			dns.Searches = nil
			for _, name := range fields[1:] {
				if name != "." {
					dns.Searches = append(dns.Searches, strings.TrimSuffix(name, "."))
				}
			}
		case "options":
			dns.Options = append(dns.Options, fields[1:]...)
		}
	}
	return dns
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, s := range b {
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
