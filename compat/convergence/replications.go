package convergence

import (
	"context"
	"errors"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
)

// Replications are the scenarios of ReplicationControllers and of disruption
// budgets.
func Replications() []Scenario {
	orphan := metav1.DeletePropagationOrphan
	return []Scenario{
		{Name: "replications", Steps: []Step{
			// Pods made within seconds of each other are deleted in the order of their UIDs,
			// unless one costs more.
			{Name: "an orphan", Do: createPod(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "orphan", Labels: map[string]string{"app": "set"},
					Annotations: map[string]string{corev1.PodDeletionCost: "100"},
				},
				Spec: template("set", "nginx:1", "").Spec,
			})},
			{Name: "create adopts", Do: createReplication("set", 3)},
			{Name: "scale up", Do: scaleReplication("set", 5)},
			{Name: "scale down", Do: scaleReplication("set", 2)},
			{Name: "relabelled is released", Do: relabelOne("set")},
			{Name: "orphaned", Do: func(ctx context.Context, r *Room) error {
				return r.Client.CoreV1().ReplicationControllers(r.Namespace).Delete(ctx, "set", metav1.DeleteOptions{PropagationPolicy: &orphan})
			}},
			{Name: "adopted again", Do: createReplication("set", 2)},
			{Name: "delete", Do: func(ctx context.Context, r *Room) error {
				return r.Client.CoreV1().ReplicationControllers(r.Namespace).Delete(ctx, "set", metav1.DeleteOptions{})
			}},
		}},
		{Name: "budgets", Steps: []Step{
			{Name: "create", Do: all(createReplication("set", 4), createDeployment(deployment("web", 3)))},
			{Name: "budgets", Do: all(
				createBudget("set", func(s *policyv1.PodDisruptionBudgetSpec, n intstr.IntOrString) { s.MaxUnavailable = &n }, intstr.FromString("30%")),
				createBudget("web", func(s *policyv1.PodDisruptionBudgetSpec, n intstr.IntOrString) { s.MinAvailable = &n }, intstr.FromInt32(3)),
			)},
			{Name: "evictions", Do: all(evict("set", 2), evict("web", 0))},
			{Name: "another budget", Do: func(ctx context.Context, r *Room) error {
				budgets := r.Client.PolicyV1().PodDisruptionBudgets(r.Namespace)
				b, err := budgets.Get(ctx, "web", metav1.GetOptions{})
				if err != nil {
					return err
				}
				n := intstr.FromString("50%")
				b.Spec.MinAvailable = &n
				_, err = budgets.Update(ctx, b, metav1.UpdateOptions{})
				return err
			}},
			{Name: "evictions of the other", Do: evict("web", 1)},
			{Name: "scale up", Do: changeDeployment("web", replicas(5))},
		}},
	}
}

func createReplication(name string, replicas int32) do {
	return func(ctx context.Context, r *Room) error {
		set := template(name, "nginx:1", "")
		_, err := r.Client.CoreV1().ReplicationControllers(r.Namespace).Create(ctx, &corev1.ReplicationController{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ReplicationControllerSpec{Replicas: &replicas, Selector: set.Labels, Template: &set},
		}, metav1.CreateOptions{})
		return err
	}
}

// scaleReplication goes through the scale subresource.
func scaleReplication(name string, replicas int32) do {
	return func(ctx context.Context, r *Room) error {
		sets := r.Client.CoreV1().ReplicationControllers(r.Namespace)
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			scale, err := sets.GetScale(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			scale.Spec.Replicas = replicas
			_, err = sets.UpdateScale(ctx, name, scale, metav1.UpdateOptions{})
			return err
		})
	}
}

// podsOf are the pods of a label that are not being deleted, by name.
func podsOf(ctx context.Context, r *Room, app string) ([]corev1.Pod, error) {
	list, err := r.Client.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	if err != nil {
		return nil, err
	}
	pods := slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// relabelOne takes a pod out of the set that made it.
func relabelOne(app string) do {
	return func(ctx context.Context, r *Room) error {
		pods, err := podsOf(ctx, r, app)
		if err != nil {
			return err
		}
		pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Name == "orphan" })
		if len(pods) == 0 {
			return errors.New("there is no pod to relabel")
		}
		pods[0].Labels["app"] = "other"
		_, err = r.Client.CoreV1().Pods(r.Namespace).Update(ctx, &pods[0], metav1.UpdateOptions{})
		return err
	}
}

func createBudget(app string, set func(*policyv1.PodDisruptionBudgetSpec, intstr.IntOrString), n intstr.IntOrString) do {
	return func(ctx context.Context, r *Room) error {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: app}}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		set(&b.Spec, n)
		_, err := r.Client.PolicyV1().PodDisruptionBudgets(r.Namespace).Create(ctx, b, metav1.CreateOptions{})
		return err
	}
}

// evict asks for the eviction of each pod of a label, of which granted succeed.
func evict(app string, granted int) do {
	return func(ctx context.Context, r *Room) error {
		pods, err := podsOf(ctx, r, app)
		if err != nil {
			return err
		}
		done := 0
		for _, pod := range pods {
			err := r.Client.PolicyV1().Evictions(r.Namespace).Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: pod.Name}})
			switch {
			case err == nil:
				done++
			case !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
				return err
			}
			if done == granted && granted > 0 {
				return nil // the next may be allowed as soon as a pod is replaced
			}
		}
		if done != granted {
			return errors.New("fewer evictions were granted than the budget allows, or more")
		}
		return nil
	}
}
