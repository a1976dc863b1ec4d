package nodes_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/plane/planetest"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestClusterTrustBundle: a pod with a trust bundle that does not exist waits and says why, and starts
// once the bundle is there.
func TestClusterTrustBundle(t *testing.T) {
	p := planetest.Start(t, planetest.Nodes(1))
	api, ctx := p.Client(), t.Context()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx", VolumeMounts: []corev1.VolumeMount{{Name: "ca", MountPath: "/ca"}}}}
	pod.Spec.Volumes = []corev1.Volume{{Name: "ca", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{
			SignerName: new("example.com/ca"), LabelSelector: &metav1.LabelSelector{}, Path: "ca.pem"}}}}}}}
	if _, err := typed.Pods(api).Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	const waits = `MountVolume.SetUp failed for volume "ca" : combination of signerName and labelSelector matched zero ClusterTrustBundles`
	planetest.Eventually(t, func() error {
		events, _, err := typed.Events(api).List(ctx, "default", metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(events, func(e *corev1.Event) bool { return e.Reason == "FailedMount" && e.Message == waits }) {
			err = fmt.Errorf("no event %q", waits)
		}
		return err
	})
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	bundle := &certificatesv1beta1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: "example.com:ca:v1"},
		Spec:       certificatesv1beta1.ClusterTrustBundleSpec{SignerName: "example.com/ca", TrustBundle: string(authority.CertificatePEM)},
	}
	if _, err := typed.ClusterTrustBundles(api).Create(ctx, bundle); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, func() error {
		running, err := typed.Pods(api).Get(ctx, "default", "web")
		if err == nil && running.Status.Phase != corev1.PodRunning {
			err = fmt.Errorf("the pod is %s", running.Status.Phase)
		}
		return err
	})
}
