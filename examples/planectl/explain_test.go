package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kubelet"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestExplainScheduling explains decisions on a control plane with three nodes of four cores: about a pod that
// runs, as if it did not, and about one that fits no node.
func TestExplainScheduling(t *testing.T) {
	var scheduler schedule.Config
	p := planetest.Start(t, planetest.With(func(c *plane.Config) {
		c.Scheduler = func(config *schedule.Config) { scheduler = *config }
	}), planetest.Nodes(3, func(n *nodes.Config) {
		n.Kubelet = func(k *kubelet.Config) {
			k.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi")}
			k.Labels = map[string]string{"disk": map[bool]string{true: "ssd", false: "hdd"}[n.Name == "node-2"]}
		}
	}))
	pods := typed.Pods(p.Client())
	create := func(name, cpu, disk string) {
		t.Helper()
		pod := &corev1.Pod{}
		pod.Namespace, pod.Name = "default", name
		pod.Spec.Containers = []corev1.Container{{Name: "main", Image: "nginx", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Gi")}}}}
		pod.Annotations = map[string]string{schedule.ExplainAnnotation: "true"}
		if disk != "" {
			pod.Spec.NodeSelector = map[string]string{"disk": disk}
		}
		if _, err := pods.Create(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	create("small", "1", "ssd")
	planetest.Eventually(t, func() error {
		pod, err := pods.Get(t.Context(), "default", "small")
		if err == nil && pod.Spec.NodeName != "node-2" {
			err = errors.New("small has no node")
		}
		return err
	})
	create("large", "4", "ssd")
	create("any", "2", "")
	planetest.Eventually(t, func() error {
		pod, err := pods.Get(t.Context(), "default", "any")
		if err == nil && pod.Spec.NodeName == "" {
			err = errors.New("any has no node")
		}
		return err
	})
	run := func(kubeconfig string, args ...string) result {
		var out, err bytes.Buffer
		code := execute(t.Context(), append([]string{"--kubeconfig=" + kubeconfig, "explain-scheduling", "-n", "default"}, args...), environment{
			Out: &out, Err: &err, Getenv: func(string) string { return "" }})
		return result{code, out.String(), err.String()}
	}
	admin := p.KubeconfigFile()
	t.Run("tables", func(t *testing.T) {
		for name, want := range map[string]string{"small": smallTable, "large": largeTable, "any": anyTable} {
			if got := run(admin, name); got != (result{0, want[1:], ""}) {
				t.Errorf("run(explain-scheduling %s) = %+v, want code 0 and the output %s", name, got, want[1:])
			}
		}
	})
	t.Run("data", func(t *testing.T) {
		explainAsData(t, run(admin, "any", "-o", "json"), run(admin, "large", "-o", "yaml"))
	})
	t.Run("profile", func(t *testing.T) { sameProfile(t, p, &scheduler) })
	t.Run("events", func(t *testing.T) {
		// The scheduler says the same in the events of pods that ask for it.
		planetest.Eventually(t, func() error {
			list, _, err := typed.Events(p.Client()).List(t.Context(), "default", metav1.ListOptions{})
			if err != nil {
				return err
			}
			want := "3 of 3 nodes fit; best: node-1 433 (TaintToleration 100*3, LeastAllocated 68, "
			if slices.ContainsFunc(list, func(e *corev1.Event) bool {
				return e.InvolvedObject.Name == "any" && e.Reason == "SchedulingExplained" && strings.HasPrefix(e.Message, want)
			}) {
				return nil
			}
			return errors.New("there is no event " + want)
		})
	})
	t.Run("usage", func(t *testing.T) {
		for _, args := range [][]string{{}, {"a", "b"}, {"any", "-o", "wide"}, {"none"}} {
			if got := run(admin, args...); got.code != 1 || got.err == "" {
				t.Errorf("run(explain-scheduling %q) = %+v, want code 1 and an error text", args, got)
			}
		}
	})
	t.Run("permissions", func(t *testing.T) { explainAsJane(t, p, run) })
}

// What the command prints about pods of the test.
const (
	heading    = "TAINTTOLERATION*3   NODEAFFINITY*2   LEASTALLOCATED   PODTOPOLOGYSPREAD*2   INTERPODAFFINITY*2   NODERESOURCESBALANCEDALLOCATION   IMAGELOCALITY   TOTAL\n"
	noScores   = "-                   -                -                -                     -                    -                                 -               -\n"
	smallTable = `
NODE     VERDICT                                                           ` + heading + `node-2   fits                                                              ` + noScores +
		`node-1   NodeAffinity: node(s) didn't match Pod's node affinity/selector   ` + noScores + `node-3   NodeAffinity: node(s) didn't match Pod's node affinity/selector   ` + noScores
	largeTable = `
NODE     VERDICT                                                           ` + heading + `node-1   NodeAffinity: node(s) didn't match Pod's node affinity/selector   ` + noScores +
		`node-2   NodeResourcesFit: Insufficient cpu                                ` + noScores + `node-3   NodeAffinity: node(s) didn't match Pod's node affinity/selector   ` + noScores +
		"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't match Pod's node affinity/selector.\n"
	anyTable = `
NODE     VERDICT   ` + heading + `node-1   fits      100                 0                68               0                     0                    65                                0               433
node-3   fits      100                 0                68               0                     0                    65                                0               433
node-2   fits      100                 0                50               0                     0                    66                                0               416
`
)

// explainAsData checks the output of a pod that fits as JSON, and of one that does not as YAML.
func explainAsData(t *testing.T, fits, refused result) {
	var e explanation
	if err := json.Unmarshal([]byte(fits.out), &e); err != nil {
		t.Fatal(err)
	}
	if e.Pod != "any" || e.Namespace != "default" || e.Message != "" || len(e.Nodes) != 3 || e.Weights["NodeAffinity"] != 2 {
		t.Fatalf("the explanation is %+v, want it for default/any without a message, with 3 nodes and the weight 2 of NodeAffinity", e)
	}
	if n := e.Nodes[2]; n.Node != "node-2" || !n.Fits || n.Total == nil || *n.Total != 416 || n.Scores["LeastAllocated"] != 50 {
		t.Errorf("the explanation is %s, want its third node to be node-2, which fits with total 416 and 50 of LeastAllocated", fits.out)
	}
	for _, want := range []string{
		"message: '0/3 nodes are available: 1 Insufficient cpu,", "  predicate: NodeResourcesFit\n  reasons:\n  - Insufficient cpu\n", "- fits: false\n  node: node-1\n",
	} {
		if !strings.Contains(refused.out, want) {
			t.Errorf("%q is not in\n%s", want, refused.out)
		}
	}
}

// sameProfile checks that the command decides by the predicates and priorities of a plane's scheduler.
func sameProfile(t *testing.T, p *planetest.Plane, scheduler *schedule.Config) {
	have, err := (&cli{}).readProfile(t.Context(), p.Client())
	if err != nil {
		t.Fatal(err)
	}
	names := func(predicates []schedule.Predicate, priorities []schedule.Weighted) (list []string) {
		for _, p := range predicates {
			list = append(list, p.Name())
		}
		for _, w := range priorities {
			list = append(list, fmt.Sprint(w.Name(), "*", w.Weight))
		}
		return list
	}
	if have, want := names(have.predicates, have.priorities), names(scheduler.Predicates, scheduler.Priorities); !slices.Equal(have, want) {
		t.Errorf("have %q, want %q", have, want)
	}
}

// explainAsJane checks that a user that may list nodes and pods alone gets an explanation and warnings, and
// without these permissions an error.
func explainAsJane(t *testing.T, p *planetest.Plane, run func(string, ...string) result) {
	config, rest := p.Kubeconfig(), p.REST("jane")
	for name := range config.Users {
		config.Users[name] = kubeconfig.User{ClientCertificateData: rest.CertData, ClientKeyData: rest.KeyData}
	}
	file := filepath.Join(t.TempDir(), "jane")
	if err := config.Write(file); err != nil {
		t.Fatal(err)
	}
	if got := run(file, "any"); got.code != 1 || !strings.Contains(got.err, "Forbidden") {
		t.Errorf("run(explain-scheduling any) by jane = %+v, want code 1 and a Forbidden", got)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "jane"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list"}}}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "jane"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "jane"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "jane"}}}
	if _, err := typed.ClusterRoles(p.Client()).Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	if _, err := typed.ClusterRoleBindings(p.Client()).Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, func() error {
		got := run(file, "any")
		if got.code != 0 || !strings.Contains(got.out, "node-3") || !strings.Contains(got.err, "Warning: you may not list services, so that the explanation leaves them out\n") {
			return errors.New(got.out + got.err)
		}
		return nil
	})
}
