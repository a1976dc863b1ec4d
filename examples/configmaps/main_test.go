package main

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/planetest"
	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestConfigMaps runs the controller against a control plane in a bubble. synctest.Wait returns
// when the controller and the garbage collector have nothing left to do, so nothing is polled.
func TestConfigMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.Start(t, planetest.WithoutNetwork())
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- run(ctx, p.Client()) }()
		deployments, maps := typed.Deployments(p.Client()), typed.ConfigMaps(p.Client())
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if got, err := maps.Get(ctx, "default", "web"); err != nil || got.Data["settings"] != want || metav1.GetControllerOf(got) == nil {
				t.Fatalf("%v %v, want the settings %q", got, err, want)
			}
		}

		if _, err := deployments.Create(ctx, web("blue")); err != nil {
			t.Fatal(err)
		}
		expect("blue")
		if _, err := deployments.Patch(ctx, "default", "web", "application/merge-patch+json", []byte(`{"metadata":{"annotations":{"example.com/settings":"red"}}}`)); err != nil {
			t.Fatal(err)
		}
		expect("red")
		if err := maps.Delete(ctx, "default", "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		expect("red")
		if err := deployments.Delete(ctx, "default", "web", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, err := maps.Get(ctx, "default", "web"); !apierrors.IsNotFound(err) {
			t.Errorf("the ConfigMap of a deleted Deployment: %v", err)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func web(value string) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Annotations: map[string]string{annotation: value}},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		},
	}
}
