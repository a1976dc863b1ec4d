package main

import (
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTop runs kubectl top over two nodes and their pods.
func TestTop(t *testing.T) {
	kubectl, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip(err)
	}
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "2", "--metric-resolution", "1s")
	api := cluster.client(t)
	two := podOf("two", "nginx")
	two.Labels = map[string]string{"app": "two"}
	two.Spec.Containers = append(two.Spec.Containers, corev1.Container{Name: "d", Image: "busybox"})
	for _, pod := range []*corev1.Pod{podOf("one", "nginx"), two} {
		if _, err := typed.Pods(api).Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	top := func(arguments ...string) string {
		out, err := exec.CommandContext(t.Context(), kubectl, append([]string{"--kubeconfig", cluster.config}, arguments...)...).CombinedOutput()
		if err != nil {
			return "failed: " + string(out)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		for i := range lines {
			lines[i] = strings.Join(strings.Fields(lines[i]), " ")
		}
		return strings.Join(lines, "\n")
	}
	for _, test := range []struct{ command, want string }{
		{"top nodes", `NAME CPU\(cores\) CPU\(?%\)? MEMORY\(bytes\) MEMORY\(?%\)?\nnode-1 [1-9]\d*m \d+% [1-9]\d*Mi \d+%\nnode-2 [1-9]\d*m \d+% [1-9]\d*Mi \d+%`},
		{"top node node-2 --no-headers", `node-2 [1-9]\d*m \d+% [1-9]\d*Mi \d+%`},
		{"top pods -A --containers", `NAMESPACE POD NAME CPU\(cores\) MEMORY\(bytes\)\ndefault one c (9|10|11)m 16Mi\ndefault two c (9|10|11)m 16Mi\ndefault two d (9|10|11)m 16Mi`},
		{"top pods -l app=two", `NAME CPU\(cores\) MEMORY\(bytes\)\ntwo (19|20|21)m 32Mi`},
		{"top pod one --no-headers", `one (9|10|11)m 16Mi`},
		{"get pods.metrics.k8s.io one", `NAME CPU MEMORY WINDOW\none \d+n 16Mi \S+s`},
		{"get nodes.metrics.k8s.io -o name", `nodemetrics?\.metrics\.k8s\.io/node-1\nnodemetrics?\.metrics\.k8s\.io/node-2|node\.metrics\.k8s\.io/node-1\nnode\.metrics\.k8s\.io/node-2`},
	} {
		want, got := regexp.MustCompile("^(?:"+test.want+")$"), ""
		for deadline := time.Now().Add(patience); !want.MatchString(got); <-time.After(100 * time.Millisecond) {
			if got = top(strings.Fields(test.command)...); time.Now().After(deadline) {
				t.Fatalf("kubectl %s:\n%s\nwant %s", test.command, got, test.want)
			}
		}
	}
}

// TestMetricsRights: a user who may view a namespace may read the metrics of its pods and of no
// other, and the metrics server may read nothing at the API server.
func TestMetricsRights(t *testing.T) {
	dir := t.TempDir()
	cluster := start(t, dir, "--storage", "memory", "--metric-resolution", "1s")
	api := cluster.client(t)
	eventually(t, "metrics.k8s.io is available", func() bool {
		s, err := typed.APIServices(api).Get(t.Context(), "", "v1beta1.metrics.k8s.io")
		return err == nil && len(s.Status.Conditions) == 1 && s.Status.Conditions[0].Status == "True"
	})
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "jane"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
	}
	if _, err := typed.RoleBindings(api).Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	const all = "/apis/metrics.k8s.io/v1beta1/"
	jane, server := cluster.as(t, dir, "jane"), cluster.as(t, dir, "system:metrics-server")
	jane.until(t, all+"namespaces/default/pods", `"kind":"PodMetricsList"`)
	for _, path := range []string{all + "pods", all + "nodes", all + "namespaces/kube-system/pods"} {
		if code, body := jane.ask(t, "GET", path); code != http.StatusForbidden {
			t.Errorf("jane reads %s: %d %s", path, code, body)
		}
	}
	for _, path := range []string{all + "nodes", "/api/v1/nodes", "/api/v1/pods", "/api/v1/nodes/node-1/proxy/pods"} {
		if code, body := server.ask(t, "GET", path); code != http.StatusForbidden {
			t.Errorf("the metrics server reads %s: %d %s", path, code, body)
		}
	}
	probed := podOf("probed", "nginx") // its probes are counted from the first one on
	probed.Spec.Containers[0].ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, PeriodSeconds: 1}
	if _, err := typed.Pods(api).Create(t.Context(), probed); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"metrics": `kubelet_runtime_operations_total{operation_type="version"}`, "metrics/resource": "node_cpu_usage_seconds_total ", "metrics/cadvisor": "machine_cpu_cores ",
		"metrics/probes": `prober_probe_total{container="c",namespace="default",pod="probed",`, "configz": `{"kubeletconfig":{"address":`,
	} {
		for deadline := time.Now().Add(patience); ; <-time.After(100 * time.Millisecond) {
			answer, err := api.Do(t.Context(), client.Request{Path: "/api/v1/nodes/node-1/proxy/" + path})
			if err == nil && strings.Contains(string(answer.Body), want) {
				break
			}
			if path != "metrics/probes" || time.Now().After(deadline) {
				t.Errorf("GET node-1/proxy/%s = %+v, %v, want %q in the answer", path, answer, err, want)
				break
			}
		}
	}
}
