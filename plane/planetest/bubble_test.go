package planetest_test

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBubble runs a control plane with nodes on the clock of a bubble: nothing is polled,
// an hour takes no time, and two runs give all objects the same UIDs and names.
func TestBubble(t *testing.T) {
	var runs [2][]string
	for run := range runs {
		synctest.Test(t, func(t *testing.T) { runs[run] = runInBubble(t) })
	}
	if !slices.Equal(runs[0], runs[1]) {
		t.Errorf("two runs differ:\n%q\n%q", runs[0], runs[1])
	}
}

// runInBubble starts a Deployment of three pods, deletes it after an hour, and returns the
// identities of its pods.
func runInBubble(t *testing.T) []string {
	p := planetest.Start(t, planetest.WithoutNetwork(), planetest.Names(1), planetest.Nodes(2))
	api := p.Client()
	begin := time.Now()
	if _, err := typed.Deployments(api).Create(t.Context(), newWeb(3)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute)
	synctest.Wait()
	web, ok := p.Caches.Deployments.Get("default/web")
	if !ok || web.Status.AvailableReplicas != 3 {
		t.Fatalf("after %v: %+v", time.Since(begin), web)
	}
	var identities []string
	for pod := range p.Caches.Pods.All() {
		identities = append(identities, pod.Name+" "+string(pod.UID))
	}
	slices.Sort(identities)
	time.Sleep(time.Hour)
	node, ok := p.Caches.Nodes.Get("node-1")
	if !ok || !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}) {
		t.Errorf("node-1 after an hour: %+v", node)
	}
	readLog(t, api)
	if err := typed.Deployments(api).Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Minute) // the pods have a grace period
	synctest.Wait()
	for pod := range p.Caches.Pods.All() {
		t.Errorf("pod %s is still there", pod.Name)
	}
	return identities
}

// readLog reads the log of one pod through the API server and the kubelet, over the network in memory.
func readLog(t *testing.T, api *client.Client) {
	t.Helper()
	pods, _, err := typed.Pods(api).List(t.Context(), "default", metav1.ListOptions{})
	if err != nil || len(pods) == 0 {
		t.Fatal(len(pods), err)
	}
	pod := pods[0].Name
	log, _, err := api.Stream(t.Context(), client.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/default/pods/" + pod + "/log"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(log)
	if err != nil || string(text) != "web is simulated: nothing runs\n" || log.Close() != nil {
		t.Errorf("log %q: %v", text, err)
	}
}

// TestStartWaitsForNoTimer: a control plane with nodes is ready without waiting for the next round of
// something that is done at intervals. In a bubble, time passes only when everything waits.
func TestStartWaitsForNoTimer(t *testing.T) {
	for _, nodes := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			planetest.Start(t, planetest.Nodes(nodes), planetest.WithoutNetwork())
			if took := time.Since(begun); took > 50*time.Millisecond {
				t.Errorf("with %d nodes: ready after %v", nodes, took)
			}
		})
	}
}
