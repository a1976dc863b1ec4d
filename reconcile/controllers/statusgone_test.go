package controllers_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/reconcile/controllers"
)

// TestStatusOfWhatIsGone removes objects whose copies are late, and has their pods
// change. The status that is then written cannot be, and that is no error.
func TestStatusOfWhatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.log = funcr.New(func(_, line string) { t.Error(line) }, funcr.Options{})
		must[*appsv1.Deployment](t)(w.deployments.Create(outside(), newDeployment(3, 1, 0)))
		must[*appsv1.ReplicaSet](t)(w.replicaSets.Create(outside(), newReplicaSet("set", 1)))
		must[*batchv1.Job](t)(w.jobs.Create(outside(), newJob(3, 3)))
		late := lag{least: 10 * time.Second}
		p := launch(t, func(ctx context.Context) []controllers.Runner {
			return []controllers.Runner{w.replicaSetController(t, ctx, late, lag{}), w.deploymentController(t, ctx, late, lag{})}
		})
		jobs := w.runJobsWith(t, late, lag{})
		time.Sleep(time.Minute)
		written := map[string]bool{}
		w.mu.Lock()
		w.fault = func(verb, name string) (bool, error) {
			written[verb+" "+name] = true
			return true, nil
		}
		w.mu.Unlock()
		removeOutside(t, w.deployments, "default", "nginx")
		removeOutside(t, w.replicaSets, "default", "set")
		removeOutside(t, w.jobs, "default", "sum")
		for _, pod := range w.pods.list() {
			w.pods.alter(t, keyOf(pod), func(p *corev1.Pod) {
				makeReady(p)
				if p.Labels["job-name"] != "" {
					p.Status.Phase = corev1.PodSucceeded
				}
			})
		}
		settle()
		p.stop(t)
		jobs.stop(t)
		for _, name := range []string{"Deployment default/nginx", "ReplicaSet default/set", "Job default/sum"} {
			if !written["status "+name] {
				t.Errorf("no status of %s was written: %v", name, written)
			}
		}
	})
}
