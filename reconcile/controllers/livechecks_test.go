package controllers_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/reconcile/controllers"
)

// TestJobNotKnownYet: a pod whose Job the copy does not show yet is not let go: it
// would never be counted.
func TestJobNotKnownYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		p := w.runJobsWith(t, lag{least: time.Minute}, lag{})
		job := must[*batchv1.Job](t)(w.jobs.Create(outside(), newJob(1, 1)))
		must[*corev1.Pod](t)(w.pods.Create(outside(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "early", Finalizers: []string{batchv1.JobTrackingFinalizer},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}}}))
		time.Sleep(30 * time.Second)
		if pod := w.pods.list()[0]; !held(pod) {
			t.Error("the pod was let go, and its job lives")
		}
		p.stop(t)
	})
}

// TestNamespaceWaits: a namespace is not let go while anything remains in it, nor
// while it is not known what there may be.
func TestNamespaceWaits(t *testing.T) {
	for name, contents := range map[string]func(n int) ([]controllers.NamespaceContent, error){
		"remains": func(n int) ([]controllers.NamespaceContent, error) {
			return []controllers.NamespaceContent{{Resource: corev1.Resource("pods"), Empty: func(context.Context, string) (controllers.Remains, error) {
				return controllers.Remains{Objects: max(0, 4-n)}, nil
			}}}, nil
		},
		"unknown": func(n int) ([]controllers.NamespaceContent, error) {
			if n < 4 {
				return nil, errors.New("an aggregated server is down")
			}
			return nil, nil
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newCluster()
			passes := 0
			c.namespaces.check = func(_, n *corev1.Namespace) {
				if n != nil && len(n.Spec.Finalizers) == 0 && passes < 4 {
					t.Errorf("%s: let go after %d passes, want 4", name, passes)
				}
			}
			c.addNamespace(t, "doomed")
			p := launch(t, func(ctx context.Context) []controllers.Runner {
				return []controllers.Runner{must[*controllers.Namespace](t)(controllers.NewNamespace(controllers.NamespaceConfig{
					Namespaces: follow(ctx, c.namespaces, lag{}), Writer: finalizer{c.namespaces},
					Contents: func(context.Context) ([]controllers.NamespaceContent, error) { passes++; return contents(passes) },
				}))}
			})
			c.doom(t, "doomed")
			settle()
			if n := c.namespace("doomed"); n != nil && len(n.Spec.Finalizers) > 0 || passes != 4 {
				t.Errorf("%s: not let go after %d passes", name, passes)
			}
			p.stop(t)
		})
	}
}
