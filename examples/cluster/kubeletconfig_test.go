package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/kubelet/server"
	"github.com/planekit/planekit/kubelet/staticpods"
	corev1 "k8s.io/api/core/v1"
)

func kubeletFile(t *testing.T, fields string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubelet.yaml")
	text := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n" + fields + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestKubeletConfig(t *testing.T) {
	o, err := parse("--kubelet-config", kubeletFile(t, "maxPods: 3\naddress: 127.0.0.1\nevictionHard: {memory.available: 1Mi}"))
	if err != nil {
		t.Fatal(err)
	}
	var k kubelet.Config
	o.configureKubelet(&k)
	pods := k.Capacity[corev1.ResourcePods]
	if pods.Value() != 3 || len(k.Eviction.Thresholds) != 1 {
		t.Errorf("configureKubelet sets %d pods and the thresholds %+v, want 3 pods and one threshold", pods.Value(), k.Eviction.Thresholds)
	}
	if got := o.kubelet.Warnings(); len(got) != 1 || !strings.HasPrefix(got[0], "address has no effect") {
		t.Error(got)
	}
	// Static pods and TLS are for this program.
	file := kubeletFile(t, "staticPodPath: manifests\nstaticPodURL: http://x/\nhttpCheckFrequency: 3s\ntlsMinVersion: VersionTLS13")
	if o, err = parse("--kubelet-config", file); err != nil {
		t.Fatal(err)
	}
	static, serve := staticpods.Config{}, server.Config{TLS: &tls.Config{}}
	o.kubelet.StaticPods(&static)
	o.kubelet.Server(&serve)
	if static.Path != filepath.Join(filepath.Dir(file), "manifests") || static.URL != "http://x/" || static.URLPeriod != 3*time.Second ||
		static.Period != 20*time.Second || serve.TLS.MinVersion != tls.VersionTLS13 || len(o.kubelet.Warnings()) != 0 {
		t.Errorf("static pods %+v, TLS version %x, Warnings() = %v, want Path %s, URL http://x/ each 3s, Period 20s, TLS %x, no warnings",
			static, serve.TLS.MinVersion, o.kubelet.Warnings(), filepath.Join(filepath.Dir(file), "manifests"), tls.VersionTLS13)
	}
	for arguments, want := range map[string]string{
		"--pod-manifest-path m": "staticPodPath and --pod-manifest-path exclude each other",
		"--nodes 0":             "static pods need a node",
	} {
		if _, err := parse(append(strings.Fields(arguments), "--kubelet-config", file)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parse with --kubelet-config and %s = %v, want an error with %q", arguments, err, want)
		}
	}
	for fields, want := range map[string]string{
		"maxPod: 3":                             `unknown field "maxPod"`,
		"podCIDR: 10.0.0.0/24":                  "podCIDR cannot be set: --cluster-cidr says which addresses pods have",
		"cgroupRoot: /x":                        "cgroupRoot cannot be set",
		"podLogsDir: /x":                        "podLogsDir cannot be set",
		"cpuManagerPolicy: static":              "cpuManagerPolicy static needs --nodes 1",
		"evictionHard: {memory.available: 1Mi}": "evictionHard and --eviction-hard exclude each other",
	} {
		file := kubeletFile(t, fields)
		_, err := parse("--kubelet-config", file, "--nodes", "2", "--eviction-hard", "memory.available<1Mi")
		if err == nil || !strings.Contains(err.Error(), "--kubelet-config "+file+": ") || !strings.Contains(err.Error(), want) {
			t.Errorf("parse with --kubelet-config of %q = %v, want an error with --kubelet-config %s: and %q", fields, err, file, want)
		}
	}
	if _, err := parse("--kubelet-config", "missing"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}
