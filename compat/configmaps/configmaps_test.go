package configmaps

import (
	"context"
	"testing"
	"time"

	"github.com/planekit/planekit/plane/planetest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const annotation = "example.com/settings"

// start starts a control plane and returns the configuration of its administrator. It takes the
// place of envtest.Environment.
func start(t *testing.T) *rest.Config {
	t.Helper()
	r := planetest.Start(t).REST("admin", "system:masters")
	return &rest.Config{
		Host: r.Host, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: r.CAData, CertData: r.CertData, KeyData: r.KeyData},
	}
}

// settings returns the ConfigMap of a Deployment.
func settings(d *appsv1.Deployment) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: d.Namespace, Name: d.Name,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Data: map[string]string{"settings": d.Annotations[annotation]},
	}
}

// exercise creates, changes and deletes a Deployment and its ConfigMap while a controller runs.
func exercise(t *testing.T, config *rest.Config) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	deployments, maps := clients.AppsV1().Deployments("default"), clients.CoreV1().ConfigMaps("default")
	expect := func(want string, not types.UID) types.UID {
		t.Helper()
		var got *corev1.ConfigMap
		err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(ctx context.Context) (_ bool, err error) {
			got, err = maps.Get(ctx, "web", metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return false, nil
			}
			return err == nil && got.UID != not && got.Data["settings"] == want && metav1.GetControllerOf(got) != nil, err
		})
		if err != nil {
			t.Fatalf("%v; %v, want the settings %q", err, got, want)
		}
		return got.UID
	}

	if _, err := deployments.Create(ctx, web("blue"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("blue", "")
	patch := []byte(`{"metadata":{"annotations":{"` + annotation + `":"red"}}}`)
	if _, err := deployments.Patch(ctx, "web", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	first := expect("red", "")
	if err := maps.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	expect("red", first)
	if err := deployments.Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err = wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		_, err := maps.Get(ctx, "web", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
	if err != nil {
		t.Errorf("the ConfigMap of a deleted Deployment: %v", err)
	}
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
