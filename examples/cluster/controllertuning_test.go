//lint:file-ignore SA1019 users still make Endpoints by hand

package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTuning starts a cluster with every number of workers another than usual, and
// looks at what comes of it.
func TestTuning(t *testing.T) {
	loops := map[string]string{
		"concurrent-deployment-syncs": "deployment", "concurrent-endpoint-syncs": "endpoints",
		"concurrent-ephemeralvolume-syncs": "ephemeral_volume", "concurrent-gc-syncs": "garbagecollector",
		"concurrent-job-syncs": "job", "concurrent-namespace-syncs": "namespace", "concurrent-rc-syncs": "replicationmanager", "concurrent-replicaset-syncs": "replicaset",
		"concurrent-resource-quota-syncs": "resourcequota", "concurrent-service-endpoint-syncs": "endpointslice",
		"concurrent-serviceaccount-token-syncs": "token", "concurrent-ttl-after-finished-syncs": "ttlafterfinished",
		"mirroring-concurrent-service-endpoint-syncs": "endpointslicemirror",
	}
	arguments := []string{"--storage", "memory", "--nodes", "1", "--max-endpoints-per-slice", "1", "--mirroring-max-endpoints-per-subset", "1", "--terminated-pod-gc-threshold", "1"}
	var want []string
	for i, flag := range slices.Sorted(maps.Keys(loops)) {
		arguments = append(arguments, "--"+flag, fmt.Sprint(21+i))
		want = append(want, fmt.Sprintf(`controller_runtime_max_concurrent_reconciles{controller="%s"} %d`, loops[flag], 21+i))
	}
	api := start(t, t.TempDir(), arguments...).client(t)
	mustCreate(t, typed.Services(api), newWebService())
	mustCreate(t, typed.Deployments(api), newWeb(2))
	for _, name := range []string{"first", "second", "third"} {
		pod := podOf(name, "nginx")
		pod.Namespace, pod.Spec.SchedulerName = "default", "nobody"
		pod = mustCreate(t, typed.Pods(api), pod)
		pod.Status.Phase = corev1.PodFailed
		if _, err := typed.Pods(api).UpdateStatus(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	awaited(t, "two slices for two pods", func(ctx context.Context) string {
		list, _, err := typed.EndpointSlices(api).List(ctx, "default", metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=web"})
		if err != nil || len(list) != 2 || len(list[0].Endpoints) != 1 || len(list[1].Endpoints) != 1 {
			return fmt.Sprint(len(list), " slices ", text(err))
		}
		return ""
	})
	byHand := newWebService()
	byHand.Name, byHand.Spec.Selector = "db", nil
	mustCreate(t, typed.Services(api), byHand)
	mustCreate(t, typed.Endpoints(api), &corev1.Endpoints{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
		Subsets:    []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}, {IP: "192.0.2.2"}}, Ports: []corev1.EndpointPort{{Port: 80}}}},
	})
	awaited(t, "a slice for one of two addresses", func(ctx context.Context) string {
		list, _, err := typed.EndpointSlices(api).List(ctx, "default", metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=db"})
		if err != nil || len(list) != 1 || len(list[0].Endpoints) != 1 {
			return fmt.Sprint(len(list), " slices ", text(err))
		}
		return ""
	})
	awaited(t, "one pod that has ended", func(ctx context.Context) string {
		list, _, err := typed.Pods(api).List(ctx, "default", metav1.ListOptions{FieldSelector: "status.phase=Failed"})
		if err != nil || len(list) != 1 {
			return fmt.Sprint(len(list), " pods ", text(err))
		}
		return ""
	})
	answer, err := api.Do(t.Context(), client.Request{Path: "/metrics"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range want {
		if !regexp.MustCompile("(?m)^" + regexp.QuoteMeta(line) + "$").Match(answer.Body) {
			t.Errorf("no %s", line)
		}
	}
}
