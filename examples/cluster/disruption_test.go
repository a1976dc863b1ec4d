package main

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/typed"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestBudgetOverOtherKinds has pods of a controller that is known by its scale
// subresource alone, and of one that has none.
func TestBudgetOverOtherKinds(t *testing.T) {
	api := start(t, t.TempDir(), "--storage", "memory", "--nodes", "0").client(t)
	scaled := newWeb(3)
	scaled.Name = "scaled"
	deployment := mustCreate(t, typed.Deployments(api), scaled)
	plain := mustCreate(t, typed.ConfigMaps(api), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "plain"}})
	own := func(name, version, kind string, owner metav1.Object) {
		pod := podOf(name, "nginx")
		pod.Namespace, pod.Labels = "default", map[string]string{"of": name}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true)}}
		mustCreate(t, typed.Pods(api), pod)
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		one := intstr.FromInt32(1)
		b.Spec.MaxUnavailable, b.Spec.Selector = &one, &metav1.LabelSelector{MatchLabels: pod.Labels}
		mustCreate(t, typed.PodDisruptionBudgets(api), b)
	}
	own("scaled", "apps/v1", "Deployment", deployment)
	own("plain", "v1", "ConfigMap", plain)
	own("unknown", "example.com/v1", "Widget", plain)
	for name, want := range map[string]string{
		"scaled":  "3 2 InsufficientPods ",
		"plain":   "0 0 SyncFailed configmaps does not implement the scale subresource",
		"unknown": "0 0 SyncFailed discover /apis/example.com/v1",
	} {
		awaited(t, "budget "+name, func(ctx context.Context) string {
			b, err := typed.PodDisruptionBudgets(api).Get(ctx, "default", name)
			if err != nil {
				return err.Error()
			}
			c := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
			if c == nil {
				return "no condition"
			}
			got := fmt.Sprintf("%d %d %s %s", b.Status.ExpectedPods, b.Status.DesiredHealthy, c.Reason, c.Message)
			if !strings.HasPrefix(got, want) {
				return fmt.Sprintf("%q, want %q", got, want)
			}
			return ""
		})
	}
}
