package deployment

import (
	"math/rand/v2"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestBounds(t *testing.T) {
	for _, test := range []struct {
		surge, unavailable string
		want               int32
		s, u               int32
	}{
		{"25%", "25%", 10, 3, 2},
		{"25%", "25%", 1, 1, 0},
		{"0", "0", 3, 0, 1},
		{"0", "100%", 3, 0, 3},
		{"2", "9", 3, 2, 3},
		{"0%", "10%", 3, 0, 1},
	} {
		s, u := intstr.Parse(test.surge), intstr.Parse(test.unavailable)
		d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &test.want, Strategy: appsv1.DeploymentStrategy{
			RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}}}}
		if s, u := bounds(d); s != test.s || u != test.u {
			t.Errorf("%+v: %d and %d", test, s, u)
		}
	}
}

// TestRolloutModel steps through rollouts by planning alone, with pods that
// become available and go in any order, and checks both bounds at each step.
func TestRolloutModel(t *testing.T) {
	for range 500 {
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		want, s, u := int32(r.IntN(12)), intstr.FromInt(r.IntN(4)), intstr.FromInt(r.IntN(4))
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{Replicas: &want,
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &s, MaxUnavailable: &u}}}}
		old := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: appsv1.ReplicaSetSpec{Replicas: &want},
			Status: appsv1.ReplicaSetStatus{Replicas: want, AvailableReplicas: want}}
		old.Spec.Template.Spec.Hostname = "old"
		sets := []*appsv1.ReplicaSet{old}
		surge, unavailable := bounds(d)
		for step := 0; ; step++ {
			plan := planDeployment(d, sets, func(*appsv1.ReplicaSet) bool { return true })
			if plan.create != nil {
				sets = append(sets, plan.create)
			}
			for _, up := range plan.update {
				*up.from = *up.to
			}
			var pods, available int32
			for _, rs := range sets {
				s, size := &rs.Status, *rs.Spec.Replicas
				// The ReplicaSet controller: first what is too many, ready ones last.
				s.Replicas = size
				s.AvailableReplicas = min(s.AvailableReplicas, size)
				pods += s.Replicas
				available += s.AvailableReplicas
			}
			if pods > want+surge || available < want-unavailable {
				t.Fatalf("seed %d step %d: %d pods, %d available of %d, surge %d, unavailable %d", seed, step, pods, available, want, surge, unavailable)
			}
			current := sets[len(sets)-1]
			if len(sets) == 2 && current.Status.AvailableReplicas == want && old.Status.Replicas == 0 {
				break
			}
			if step > 200 {
				t.Fatalf("seed %d: no end: old %d, new %d of %d", seed, old.Status.Replicas, current.Status.Replicas, want)
			}
			if r.IntN(2) == 0 && current.Status.AvailableReplicas < current.Status.Replicas {
				current.Status.AvailableReplicas++
			}
		}
	}
}

// TestTemplateHash checks that names do not change between versions: otherwise every Deployment
// would be rolled out again.
func TestTemplateHash(t *testing.T) {
	template := &corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"b": "2", "app": "nginx"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx:1"}}},
	}
	one := int32(1)
	plain, collided := templateHash(template, nil), templateHash(template, &one)
	if plain != "79864bd6f" || collided != "687b67848" {
		t.Errorf("hashes %q and %q", plain, collided)
	}
}
