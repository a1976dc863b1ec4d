package podconfig

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const hostsPath = "/etc/hosts"

// writeHosts writes the hosts file of a pod, unless it is up to date: with its own addresses, or on the
// host's network with the content of the host's file. It returns its path.
func (b *Builder) writeHosts(pod *corev1.Pod) (path string, err error) {
	content := ""
	if pod.Spec.HostNetwork {
		host, err := os.ReadFile(hostsPath)
		if err != nil {
			return "", fmt.Errorf("hosts file: %w", err)
		}
		content = "# Kubernetes-managed hosts file (host network).\n" + string(host) + hostAliases(pod)
	} else {
		var ips []string
		for _, ip := range pod.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		content = hostsFile(pod, b.hostname(pod), b.fqdn(pod, b.hostname(pod)), ips)
	}
	path = filepath.Join(b.PodDirectory(pod.UID), "etc-hosts")
	if err := overwrite(path, []byte(content)); err != nil {
		return "", fmt.Errorf("hosts file: %w", err)
	}
	return path, nil
}

// overwrite makes content that of a file, unless it is. Containers have the file mounted, so that it
// cannot be replaced by another one. It is truncated last: a full disk must not leave running
// containers an empty file. They may also have written to it, as much as they liked.
func overwrite(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	old, err := io.ReadAll(io.LimitReader(file, int64(len(content))+1))
	if err == nil && bytes.Equal(old, content) {
		return file.Close()
	}
	if err == nil {
		_, err = file.WriteAt(content, 0)
	}
	if err == nil {
		err = file.Truncate(int64(len(content)))
	}
	return errors.Join(err, file.Close())
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
