package nodes_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kubelet/staticpods"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const manifest = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  priorityClassName: system-node-critical
  terminationGracePeriodSeconds: 5
  containers: [{name: web, image: nginx}]
`

// TestStaticPods follows a static pod through the API server with all its admission plugins: its
// mirror pod is created, shown, created again and deleted by the node's own user.
func TestStaticPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, manifests := t.TempDir(), t.TempDir()
		path := filepath.Join(manifests, "web.yaml")
		if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		p := planetest.Start(t, planetest.WithoutNetwork(), func(_ testing.TB, c *plane.Config) {
			c.Parts = append(c.Parts, nodes.InMemory(dir, 2, func(c *nodes.Config) {
				if c.Name == nodes.Name(0) {
					c.ManifestPath = manifests
				}
			}))
		})
		pods := typed.Pods(p.Client())
		get := func() *corev1.Pod {
			t.Helper()
			time.Sleep(staticpods.DefaultPeriod + 10*time.Second)
			synctest.Wait()
			list, _, err := pods.List(t.Context(), "", metav1.ListOptions{})
			if err != nil || len(list) > 1 {
				t.Fatal(len(list), err)
			}
			if len(list) == 0 {
				return nil
			}
			return list[0]
		}
		first := get()
		if first == nil || first.Name != "web-node-1" || first.Spec.NodeName != "node-1" || first.Status.Phase != corev1.PodRunning || len(first.Status.ContainerStatuses) != 1 ||
			first.Status.ContainerStatuses[0].State.Running == nil || first.Spec.Priority == nil || first.Spec.ServiceAccountName != "" || first.Labels["app"] != "web" {
			t.Fatalf("the pod is %+v, want web-node-1 with app=web, Running on node-1, with a priority and no service account", first)
		}
		if again := get(); again == nil || again.ResourceVersion != first.ResourceVersion {
			t.Errorf("without a change the pod is %v, want that it was not written since %v", again, first)
		}
		node, err := typed.Nodes(p.Client()).Get(t.Context(), "", "node-1")
		if err != nil {
			t.Fatal(err)
		}
		if owners := first.OwnerReferences; len(owners) != 1 || owners[0].UID != node.UID || owners[0].Kind != "Node" || owners[0].Controller == nil || !*owners[0].Controller {
			t.Errorf("the owners are %+v, want only the controller node-1 of the UID %s", owners, node.UID)
		}
		log, _, err := p.Client().Stream(t.Context(), client.Request{Method: http.MethodGet, Path: "/api/v1/namespaces/default/pods/web-node-1/log"})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(log); err != nil || string(text) != "web is simulated: nothing runs\n" || log.Close() != nil {
			t.Errorf("log %q: %v", text, err)
		}

		container := first.Status.ContainerStatuses[0].ContainerID
		for _, options := range []metav1.DeleteOptions{{}, {GracePeriodSeconds: new(int64)}} {
			before := get()
			if before == nil {
				t.Fatalf("before the deletion with %+v there is no pod, want web-node-1", options)
			}
			if err := pods.Delete(t.Context(), "default", "web-node-1", options); err != nil {
				t.Fatal(err)
			}
			after := get()
			if after == nil || after.UID == before.UID || after.DeletionTimestamp != nil || len(after.Status.ContainerStatuses) != 1 || after.Status.ContainerStatuses[0].ContainerID != container ||
				!after.Status.StartTime.Equal(first.Status.StartTime) {
				t.Fatalf("after the deletion the pod is %+v, want another UID, no deletion, the container %s and the start at %v",
					after, container, first.Status.StartTime)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if pod := get(); pod != nil {
			t.Errorf("left: %+v", pod)
		}
	})
}

// TestStaticPodsAcrossRuns: a control plane that starts again on the same store keeps the mirror
// pod, and one without the directory deletes it.
func TestStaticPodsAcrossRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, manifests, store := t.TempDir(), t.TempDir(), memstore.New()
		if err := os.WriteFile(filepath.Join(manifests, "web.yaml"), []byte(manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		var uids []types.UID
		for _, path := range []string{manifests, manifests, ""} {
			config := plane.Config{Store: store}
			planetest.WithoutNetwork()(t, &config)
			config.Parts = append(config.Parts, nodes.InMemory(dir, 1, func(c *nodes.Config) { c.ManifestPath = path }))
			p, err := plane.New(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.Run(ctx) }()
			<-p.Ready()
			time.Sleep(time.Minute)
			synctest.Wait()
			list, _, err := typed.Pods(p.Client()).List(t.Context(), "", metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, pod := range list {
				uids = append(uids, pod.UID)
				if pod.Status.Phase != corev1.PodRunning {
					t.Errorf("with the manifests in %q the pod %s has the status %+v, want Running", path, pod.Name, pod.Status)
				}
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		if len(uids) != 2 || uids[0] != uids[1] {
			t.Errorf("mirror pods %v, want one and the same in the first two runs", uids)
		}
	})
}
