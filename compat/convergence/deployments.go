package convergence

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// image sets the image of a Deployment's pods.
func image(name string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = name }
}

func replicas(n int32) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) { d.Spec.Replicas = &n }
}

// Deployments are the scenarios of Deployments and ReplicaSets.
func Deployments() []Scenario { return append(rollouts(), strains()...) }

// rollouts come to their ends.
func rollouts() []Scenario {
	return []Scenario{
		{Name: "rolling", Steps: []Step{
			{Name: "create", Do: createDeployment(deployment("web", 3))},
			{Name: "scale up", Do: changeDeployment("web", replicas(5))},
			{Name: "scale down", Do: changeDeployment("web", replicas(2))},
			{Name: "new image", Do: changeDeployment("web", image("nginx:2"))},
			{Name: "scale to nothing", Do: changeDeployment("web", replicas(0))},
		}},
		{Name: "rollback", Steps: []Step{
			{Name: "create", Do: createDeployment(deployment("web", 2))},
			{Name: "new image", Do: changeDeployment("web", image("nginx:2"))},
			{Name: "back to the old template", Do: changeDeployment("web", image("nginx:1"))},
		}},
		{Name: "bounds", Steps: []Step{
			{Name: "create", Do: createDeployment(with(deployment("web", 4), func(d *appsv1.Deployment) { d.Spec.Strategy = rolling(2, 1) }))},
			{Name: "new image", Do: changeDeployment("web", image("nginx:2"))},
		}},
		{Name: "fewer", Steps: []Step{
			{Name: "create", Do: createDeployment(with(deployment("web", 3), func(d *appsv1.Deployment) { d.Spec.Strategy = rolling(0, 1) }))},
			{Name: "new image", Do: changeDeployment("web", image("nginx:2"))},
		}},
		{Name: "paused", Steps: []Step{
			{Name: "create", Do: createDeployment(deployment("web", 2))},
			{Name: "pause", Do: changeDeployment("web", func(d *appsv1.Deployment) { d.Spec.Paused = true })},
			{Name: "new image", Do: changeDeployment("web", image("nginx:2"))},
			{Name: "scale while paused", Do: changeDeployment("web", replicas(3))},
			{Name: "resume", Do: changeDeployment("web", func(d *appsv1.Deployment) { d.Spec.Paused = false })},
		}},
		{Name: "recreate", Steps: []Step{
			{Name: "create", Do: createDeployment(with(deployment("web", 2), func(d *appsv1.Deployment) {
				d.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
			}))},
			{Name: "new image", Do: changeDeployment("web", image("nginx:2"))},
		}},
	}
}

// strains returns scenarios in which an obstacle or another client disturbs the controller.
func strains() []Scenario {
	return []Scenario{
		{Name: "stuck", Steps: []Step{
			{Name: "create", Do: createDeployment(with(deployment("web", 2), func(d *appsv1.Deployment) {
				seconds := int32(4)
				d.Spec.ProgressDeadlineSeconds = &seconds
			}))},
			{
				Name: "an image that never gets ready",
				Do: changeDeployment("web", func(d *appsv1.Deployment) {
					d.Spec.Template = template("web", "broken:1", starts)
				}),
				Until: progressing("web", corev1.ConditionFalse),
			},
			{Name: "a good image", Do: changeDeployment("web", func(d *appsv1.Deployment) {
				d.Spec.Template = template("web", "nginx:3", "")
			})},
		}},
		{Name: "proportional", Steps: []Step{
			{Name: "create", Do: createDeployment(with(deployment("web", 4), func(d *appsv1.Deployment) { d.Spec.Strategy = rolling(2, 1) }))},
			{Name: "an image that never gets ready", Do: changeDeployment("web", func(d *appsv1.Deployment) {
				d.Spec.Template = template("web", "broken:1", starts)
			})},
			{Name: "scale up", Do: changeDeployment("web", replicas(7))},
			{Name: "scale down", Do: changeDeployment("web", replicas(5))},
		}},
		{Name: "history", Steps: []Step{
			{Name: "create", Do: createDeployment(with(deployment("web", 1), func(d *appsv1.Deployment) {
				limit := int32(1)
				d.Spec.RevisionHistoryLimit = &limit
				d.Annotations = map[string]string{"note": "one"}
			}))},
			{Name: "second", Do: changeDeployment("web", image("nginx:2"))},
			{Name: "third", Do: changeDeployment("web", image("nginx:3"))},
			{Name: "annotated", Do: changeDeployment("web", func(d *appsv1.Deployment) { d.Annotations["note"] = "two" })},
		}},
		{Name: "replicasets", Steps: []Step{
			{Name: "an orphan", Do: createPod(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: map[string]string{"app": "set"}},
				Spec:       template("set", "nginx:1", "").Spec,
			})},
			{Name: "create adopts", Do: createReplicaSet(replicaSet("set", 3))},
			{Name: "relabelled is released", Do: relabel},
			{Name: "delete one", Do: deletePod("orphan")},
			{Name: "orphaned", Do: func(ctx context.Context, r *Room) error {
				how := metav1.DeletePropagationOrphan
				return r.Client.AppsV1().ReplicaSets(r.Namespace).Delete(ctx, "set", metav1.DeleteOptions{PropagationPolicy: &how})
			}},
			{Name: "adopted again", Do: createReplicaSet(replicaSet("set", 2))},
		}},
		// More Event objects about one object than a client sends one by one. Only once:
		// when pods are created a second time, stock gives them new names and planekit
		// reuses the old ones.
		{Name: "many", Steps: []Step{
			{Name: "create", Do: createReplicaSet(replicaSet("set", 12))},
			{Name: "scale to nothing", Do: changeReplicaSet("set", 0)},
		}},
		{Name: "minready", Steps: []Step{
			{Name: "create", Do: createDeployment(with(deployment("web", 2), func(d *appsv1.Deployment) { d.Spec.MinReadySeconds = 2 })),
				Until: available("web", 2)},
		}},
	}
}

func with(d *appsv1.Deployment, change func(*appsv1.Deployment)) *appsv1.Deployment {
	change(d)
	return d
}

func progressing(name string, status corev1.ConditionStatus) func(context.Context, *Room) (bool, error) {
	return func(ctx context.Context, r *Room) (bool, error) {
		d, err := r.Client.AppsV1().Deployments(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range d.Status.Conditions {
			if c.Type == appsv1.DeploymentProgressing {
				return c.Status == status && d.Status.ObservedGeneration == d.Generation, nil
			}
		}
		return false, nil
	}
}

func available(name string, n int32) func(context.Context, *Room) (bool, error) {
	return func(ctx context.Context, r *Room) (bool, error) {
		d, err := r.Client.AppsV1().Deployments(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		return err == nil && d.Status.AvailableReplicas == n, err
	}
}

// relabel takes the pod that was an orphan out of its ReplicaSet.
func relabel(ctx context.Context, r *Room) error {
	pods := r.Client.CoreV1().Pods(r.Namespace)
	pod, err := pods.Get(ctx, "orphan", metav1.GetOptions{})
	if err != nil {
		return err
	}
	pod.Labels["app"] = "other"
	_, err = pods.Update(ctx, pod, metav1.UpdateOptions{})
	return err
}

func deletePod(name string) do {
	return func(ctx context.Context, r *Room) error {
		return r.Client.CoreV1().Pods(r.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
}
