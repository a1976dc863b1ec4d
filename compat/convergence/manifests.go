package convergence

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
)

// template is a pod's, with one container.
func template(app, image, becomes string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: image, Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
		}}},
	}
	if becomes != "" {
		t.Annotations = map[string]string{fate: becomes}
	}
	return t
}

func deployment(name string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name, "nginx:1", ""),
			Strategy: rolling(1, 0),
		},
	}
}

// rolling replaces pods one after the other.
func rolling(surge, unavailable int) appsv1.DeploymentStrategy {
	above, below := intstr.FromInt(surge), intstr.FromInt(unavailable)
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &above, MaxUnavailable: &below},
	}
}

func replicaSet(name string, replicas int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: template(name, "nginx:1", ""),
		},
	}
}

func job(name, becomes string, change func(*batchv1.JobSpec)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{Template: template(name, "busybox:1", becomes)},
	}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	change(&j.Spec)
	return j
}

func service(name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"service": name}},
		Spec: corev1.ServiceSpec{
			Selector: selector,
			Ports:    []corev1.ServicePort{{Name: "web", Port: 80, TargetPort: intstr.FromString("http")}},
		},
	}
}

// The verbs of scenarios.

type do = func(context.Context, *Room) error

func createDeployment(d *appsv1.Deployment) do {
	return func(ctx context.Context, r *Room) error {
		_, err := r.Client.AppsV1().Deployments(r.Namespace).Create(ctx, d, metav1.CreateOptions{})
		return err
	}
}

func changeDeployment(name string, change func(*appsv1.Deployment)) do {
	return func(ctx context.Context, r *Room) error {
		deployments := r.Client.AppsV1().Deployments(r.Namespace)
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			d, err := deployments.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			change(d)
			_, err = deployments.Update(ctx, d, metav1.UpdateOptions{})
			return err
		})
	}
}

func deleteDeployment(name string, how metav1.DeletionPropagation) do {
	return func(ctx context.Context, r *Room) error {
		return r.Client.AppsV1().Deployments(r.Namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &how})
	}
}

func createReplicaSet(rs *appsv1.ReplicaSet) do {
	return func(ctx context.Context, r *Room) error {
		_, err := r.Client.AppsV1().ReplicaSets(r.Namespace).Create(ctx, rs, metav1.CreateOptions{})
		return err
	}
}

func changeReplicaSet(name string, replicas int32) do {
	return func(ctx context.Context, r *Room) error {
		sets := r.Client.AppsV1().ReplicaSets(r.Namespace)
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			rs, err := sets.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			rs.Spec.Replicas = &replicas
			_, err = sets.Update(ctx, rs, metav1.UpdateOptions{})
			return err
		})
	}
}

func createJob(j *batchv1.Job) do {
	return func(ctx context.Context, r *Room) error {
		_, err := r.Client.BatchV1().Jobs(r.Namespace).Create(ctx, j, metav1.CreateOptions{})
		return err
	}
}

func createPod(pod *corev1.Pod) do {
	return func(ctx context.Context, r *Room) error {
		_, err := r.Client.CoreV1().Pods(r.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	}
}

func createService(s *corev1.Service) do {
	return func(ctx context.Context, r *Room) error {
		_, err := r.Client.CoreV1().Services(r.Namespace).Create(ctx, s, metav1.CreateOptions{})
		return err
	}
}

// all does several things, one after the other.
func all(each ...do) do {
	return func(ctx context.Context, r *Room) error {
		for _, one := range each {
			if err := one(ctx, r); err != nil {
				return err
			}
		}
		return nil
	}
}
