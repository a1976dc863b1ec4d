package podconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const hostsPath = "/etc/hosts"

// WriteHosts writes the hosts file of a pod: with its own addresses, or on the host's network with the
// content of the host's file.
func (b *Builder) WriteHosts(pod *corev1.Pod, ips []string) error {
	content := ""
	if pod.Spec.HostNetwork {
		host, err := os.ReadFile(hostsPath)
		if err != nil {
			return fmt.Errorf("hosts file: %w", err)
		}
		content = "# Kubernetes-managed hosts file (host network).\n" + string(host) + hostAliases(pod)
	} else {
		content = hostsFile(pod, b.hostname(pod), b.fqdn(pod, b.hostname(pod)), ips)
	}
	if err := os.WriteFile(filepath.Join(b.PodDirectory(pod.UID), "etc-hosts"), []byte(content), 0o644); err != nil {
		return fmt.Errorf("hosts file: %w", err)
	}
	return nil
}

func hostsFile(pod *corev1.Pod, hostname, fqdn string, ips []string) string {
	var b strings.Builder
	b.WriteString("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
		"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n")
	names := hostname
	if fqdn != "" {
		names = fqdn + "\t" + hostname
	}
	for _, ip := range ips {
		fmt.Fprintf(&b, "%s\t%s\n", ip, names)
	}
	return b.String() + hostAliases(pod)
}

// hostAliases returns the lines of the hosts file for the aliases of a pod.
func hostAliases(pod *corev1.Pod) string {
	var b strings.Builder
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, a := range pod.Spec.HostAliases {
		fmt.Fprintf(&b, "%s\t%s\n", a.IP, strings.Join(a.Hostnames, "\t"))
	}
	return b.String()
}
