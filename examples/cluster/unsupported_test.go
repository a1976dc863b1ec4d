package main

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/admission/unsupported"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// warned collects the Warning headers of answers.
type warned struct {
	http.RoundTripper
	mu    sync.Mutex
	texts []string
}

func (w *warned) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := w.RoundTripper.RoundTrip(r)
	if err == nil {
		w.mu.Lock()
		w.texts = append(w.texts, response.Header.Values("Warning")...)
		w.mu.Unlock()
	}
	return response, err
}

// take returns the texts since the last call.
func (w *warned) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	texts := w.texts
	w.texts = nil
	return texts
}

// warnedClient is a client over TLS whose warnings are collected.
func (r *running) warnedClient(t *testing.T) (*client.Client, *warned) {
	t.Helper()
	config, err := kubeconfig.Load(r.config)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := config.Client("")
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: c.TLS, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	heard := &warned{RoundTripper: transport}
	c.Transport, c.TLS = heard, nil
	api, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return api, heard
}

// windowsTemplate is a template whose pods have options that nothing acts on.
func windowsTemplate() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx",
			SecurityContext: &corev1.SecurityContext{WindowsOptions: &corev1.WindowsSecurityContextOptions{RunAsUserName: new("web")}},
		}}},
	}
}

// TestUnsupportedIsSaid: what is stored and nothing acts on gets a Warning header, and its object one event; pods that
// controllers make of a template do not repeat what was said of it, and hard constraints keep a pod pending.
func TestUnsupportedIsSaid(t *testing.T) {
	cluster := start(t, t.TempDir(), "--storage", "memory", "--nodes", "1")
	api, heard := cluster.warnedClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	of := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	const windows = "securityContext.windowsOptions: nodes run Linux containers only"
	says := func(what string, err error, want ...string) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range want {
			want[i] = `299 - "` + text + `"`
		}
		if got := heard.take(); !slices.Equal(got, want) {
			t.Errorf("%s: warned of %q, want %q", what, got, want)
		}
	}

	_, err := typed.StatefulSets(api).Create(ctx, &appsv1.StatefulSet{ObjectMeta: of("db"),
		Spec: appsv1.StatefulSetSpec{Selector: selector, Template: windowsTemplate()}})
	says("stateful set", err, "kind StatefulSet: no controller acts on it yet: no pods are made")
	_, err = typed.Pods(api).Create(ctx, &corev1.Pod{ObjectMeta: of("single"), Spec: windowsTemplate().Spec})
	says("pod", err, "spec.containers[0]."+windows)
	_, err = typed.Deployments(api).Create(ctx, &appsv1.Deployment{ObjectMeta: of("web"),
		Spec: appsv1.DeploymentSpec{Selector: selector, Template: windowsTemplate()}})
	says("deployment", err, "spec.template.spec.containers[0]."+windows)
	hard := &corev1.Pod{ObjectMeta: of("hard"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}}}
	hard.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: new("workers")}
	_, err = typed.Pods(api).Create(ctx, hard)
	says("scheduling group", err, "spec.schedulingGroup: not supported yet: the pod stays Pending")
	_, err = typed.ConfigMaps(api).Create(ctx, &corev1.ConfigMap{ObjectMeta: of("plain")})
	says("config map", err)
	// Services lead to simulated containers.
	_, err = typed.Services(api).Create(ctx, &corev1.Service{ObjectMeta: of("web"), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, SessionAffinity: corev1.ServiceAffinityClientIP, Ports: []corev1.ServicePort{{Port: 80}},
		TrafficDistribution: new(corev1.ServiceTrafficDistributionPreferSameZone),
	}})
	says("service", err, "spec.trafficDistribution: endpoint slices carry the hints, and nothing that forwards reads them yet")

	until(t, ctx, "the deployment has its pod", func() bool {
		web, err := typed.Deployments(api).Get(ctx, "default", "web")
		if err != nil {
			t.Fatal(err)
		}
		return web.Status.ReadyReplicas == 1
	})
	const unschedulable = "0/1 nodes are available: 1 node(s) could not be judged: a scheduling group is not supported yet. " +
		"no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
	until(t, ctx, "the pod with a hard constraint is unschedulable", func() bool {
		pod, err := typed.Pods(api).Get(ctx, "default", "hard")
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && c.Message == unschedulable
		})
	})
	var got map[string]int
	said := func(reason string) map[string]int {
		events, _, err := typed.Events(api).List(ctx, "default", metav1.ListOptions{FieldSelector: "reason=" + reason})
		if err != nil {
			t.Fatal(err)
		}
		got = map[string]int{}
		for _, e := range events {
			got[e.InvolvedObject.Kind+" "+e.InvolvedObject.Name] += int(e.Count)
		}
		return got
	}
	// The events come in the order of the writes: with that of the last write, those of the deployment's replica set and
	// pod, which are there by now, would have come.
	_, err = typed.Pods(api).Create(ctx, &corev1.Pod{ObjectMeta: of("last"), Spec: windowsTemplate().Spec})
	says("last pod", err, "spec.containers[0]."+windows)
	until(t, ctx, "the events are there", func() bool { return said(unsupported.Reason)["Pod last"] > 0 })
	want := map[string]int{"StatefulSet db": 1, "Service web": 1, "Pod single": 1, "Deployment web": 1, "Pod hard": 1, "Pod last": 1}
	if !maps.Equal(got, want) {
		t.Errorf("events of %v, want %v", got, want)
	}
	if failed := said("FailedScheduling"); failed["Pod hard"] == 0 {
		t.Errorf("FailedScheduling of %v", failed)
	}
}

// actedOn lists the resources that a component acts on, and those that hold data.
const actedOn = "pods nodes namespaces services endpoints events secrets configmaps serviceaccounts limitranges resourcequotas " +
	"horizontalpodautoscalers.autoscaling ipaddresses.networking.k8s.io servicecidrs.networking.k8s.io " +
	"replicationcontrollers deployments.apps replicasets.apps controllerrevisions.apps jobs.batch " +
	"persistentvolumeclaims runtimeclasses.node.k8s.io endpointslices.discovery.k8s.io events.events.k8s.io leases.coordination.k8s.io poddisruptionbudgets.policy " +
	"flowschemas.flowcontrol.apiserver.k8s.io prioritylevelconfigurations.flowcontrol.apiserver.k8s.io " +
	"priorityclasses.scheduling.k8s.io csinodes.storage.k8s.io mutatingwebhookconfigurations.admissionregistration.k8s.io " +
	"validatingwebhookconfigurations.admissionregistration.k8s.io validatingadmissionpolicies.admissionregistration.k8s.io " +
	"validatingadmissionpolicybindings.admissionregistration.k8s.io mutatingadmissionpolicies.admissionregistration.k8s.io " +
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io apiservices.apiregistration.k8s.io certificatesigningrequests.certificates.k8s.io clustertrustbundles.certificates.k8s.io " +
	"roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io " +
	"clusterroles.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io"

// TestEveryKind: of each kind that is served, the table says that nothing acts on it, or something does.
func TestEveryKind(t *testing.T) {
	silent, served := map[string]bool{}, map[string]bool{}
	for _, row := range unsupported.Table() {
		if row.Path == "" {
			silent[row.In] = true
		}
	}
	acted := strings.Fields(actedOn)
	for _, r := range kube.Resources() {
		name := strings.TrimSuffix(r.Plural+"."+r.Group, ".")
		served[name] = true
		if silent[name] == slices.Contains(acted, name) {
			t.Errorf("%s: in the table: %v, and in the list of what is acted on: %v", name, silent[name], !silent[name])
		}
	}
	for name := range silent {
		if !served[name] {
			t.Errorf("%s is in the table and not served", name)
		}
	}
}
