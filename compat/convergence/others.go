package convergence

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// Jobs are the scenarios of Jobs. Their controller waits a second after a change of
// a pod before it looks at the job.
func Jobs() []Scenario {
	const quiet = 1300 * time.Millisecond
	return []Scenario{
		{Name: "completions", Quiet: quiet, Steps: []Step{
			{Name: "create", Do: createJob(job("work", succeeds, func(s *batchv1.JobSpec) {
				s.Parallelism, s.Completions = ptr.To[int32](2), ptr.To[int32](3)
			})), Until: ended("work")},
		}},
		{Name: "failing", Quiet: quiet, Steps: []Step{
			{Name: "no second try", Do: createJob(job("once", fails, func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To[int32](0) })), Until: ended("once")},
			{Name: "one more try", Do: createJob(job("twice", fails, func(s *batchv1.JobSpec) { s.BackoffLimit = ptr.To[int32](1) })), Until: ended("twice")},
		}},
		{Name: "indexed", Quiet: quiet, Steps: []Step{
			{Name: "create", Do: createJob(job("work", succeeds, func(s *batchv1.JobSpec) {
				s.Parallelism, s.Completions = ptr.To[int32](2), ptr.To[int32](3)
				s.CompletionMode = ptr.To(batchv1.IndexedCompletion)
			})), Until: ended("work")},
		}},
		{Name: "ttl", Quiet: quiet, Steps: []Step{
			{Name: "create", Do: createJob(job("work", succeeds, func(s *batchv1.JobSpec) {
				s.TTLSecondsAfterFinished = ptr.To[int32](1)
			})), Until: func(ctx context.Context, r *Room) (bool, error) {
				_, err := r.Client.BatchV1().Jobs(r.Namespace).Get(ctx, "work", metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return true, nil
				}
				return false, err
			}},
		}},
		{Name: "suspended", Quiet: quiet, Steps: []Step{
			{Name: "create", Do: createJob(job("work", "", func(s *batchv1.JobSpec) { s.Suspend = ptr.To(true) }))},
			{Name: "resume", Do: suspend(false)},
			{Name: "suspend", Do: suspend(true)},
		}},
		{Name: "deadline", Quiet: quiet, Steps: []Step{
			{Name: "create", Do: createJob(job("work", "", func(s *batchv1.JobSpec) { s.ActiveDeadlineSeconds = ptr.To[int64](3) })), Until: ended("work")},
		}},
	}
}

func suspend(so bool) do {
	return func(ctx context.Context, r *Room) error {
		jobs := r.Client.BatchV1().Jobs(r.Namespace)
		j, err := jobs.Get(ctx, "work", metav1.GetOptions{})
		if err != nil {
			return err
		}
		j.Spec.Suspend = &so
		_, err = jobs.Update(ctx, j, metav1.UpdateOptions{})
		return err
	}
}

// ended says whether a job has.
func ended(name string) func(context.Context, *Room) (bool, error) {
	return func(ctx context.Context, r *Room) (bool, error) {
		j, err := r.Client.BatchV1().Jobs(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range j.Status.Conditions {
			if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
				return true, nil
			}
		}
		return false, nil
	}
}

// Others are the scenarios of everything else.
func Others() []Scenario {
	return []Scenario{
		{Name: "services", Quiet: 1300 * time.Millisecond, Steps: []Step{
			{Name: "nobody behind it", Do: createService(service("web", map[string]string{"app": "web"}))},
			{Name: "pods", Do: createDeployment(deployment("web", 2))},
			{Name: "a pod that is not ready", Do: createPod(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "slow", Labels: map[string]string{"app": "web", "by": "hand"}, Annotations: map[string]string{fate: starts}},
				Spec:       template("web", "nginx:1", "").Spec,
			})},
			{Name: "headless", Do: createService(headless(service("plain", map[string]string{"app": "web"})))},
			{Name: "scale down", Do: changeDeployment("web", replicas(1))},
			{Name: "delete", Do: func(ctx context.Context, r *Room) error {
				return r.Client.CoreV1().Services(r.Namespace).Delete(ctx, "web", metav1.DeleteOptions{})
			}},
		}},
		{Name: "background", Steps: cascade(metav1.DeletePropagationBackground)},
		{Name: "foreground", Steps: cascade(metav1.DeletePropagationForeground)},
		{Name: "orphan", Steps: cascade(metav1.DeletePropagationOrphan)},
		{Name: "owners", Steps: []Step{
			{Name: "create", Do: owners},
			{Name: "one of two goes", Do: deleteConfigMap("first", metav1.DeletePropagationBackground)},
			{Name: "the other goes", Do: deleteConfigMap("second", metav1.DeletePropagationBackground)},
		}},
		{Name: "namespace", Steps: []Step{
			{Name: "fill", Do: all(createDeployment(deployment("web", 2)), createService(service("web", map[string]string{"app": "web"})), createConfigMap("settings"), createThing)},
			{Name: "delete", Do: func(ctx context.Context, r *Room) error {
				return r.Client.CoreV1().Namespaces().Delete(ctx, r.Namespace, metav1.DeleteOptions{})
			}, Until: func(ctx context.Context, r *Room) (bool, error) {
				_, err := r.Client.CoreV1().Namespaces().Get(ctx, r.Namespace, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return true, noThing(ctx, r)
				}
				return false, err
			}},
		}},
		{Name: "quota", Steps: []Step{
			{Name: "create", Do: quota},
			{Name: "pods", Do: createDeployment(with(deployment("web", 2), func(d *appsv1.Deployment) {
				d.Spec.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
			}))},
			{Name: "delete", Do: deleteDeployment("web", metav1.DeletePropagationBackground), Until: used("pods", "0")},
		}},
		{Name: "accounts", Steps: []Step{
			{Name: "default comes again", Do: func(ctx context.Context, r *Room) error {
				return r.Client.CoreV1().ServiceAccounts(r.Namespace).Delete(ctx, "default", metav1.DeleteOptions{})
			}},
			{Name: "the authority comes again", Do: deleteConfigMap("kube-root-ca.crt", metav1.DeletePropagationBackground)},
			{Name: "token", Do: all(createAccount("robot"), createTokenSecret("robot-token", "robot"))},
			{Name: "delete", Do: func(ctx context.Context, r *Room) error {
				return r.Client.CoreV1().ServiceAccounts(r.Namespace).Delete(ctx, "robot", metav1.DeleteOptions{})
			}},
		}},
		// Any new service may get an address of the range.
		{Name: "ranges", Alone: true, Steps: serviceRanges()},
		{Name: "roles", Steps: []Step{
			{Name: "one", Do: all(createClusterRole("roles:whole", nil, "roles"), createClusterRole("roles:a", []string{"pods"}, ""))},
			{Name: "two", Do: createClusterRole("roles:b", []string{"services"}, "")},
			{Name: "delete", Do: func(ctx context.Context, r *Room) error {
				return r.Client.RbacV1().ClusterRoles().Delete(ctx, "roles:a", metav1.DeleteOptions{})
			}},
		}},
	}
}

func headless(s *corev1.Service) *corev1.Service {
	s.Spec.ClusterIP = corev1.ClusterIPNone
	s.Spec.PublishNotReadyAddresses = true
	return s
}

// cascade deletes a Deployment with what it owns.
func cascade(how metav1.DeletionPropagation) []Step {
	return []Step{
		{Name: "create", Do: createDeployment(deployment("web", 2))},
		{Name: "delete", Do: deleteDeployment("web", how)},
	}
}

func createConfigMap(name string, owners ...metav1.OwnerReference) do {
	return func(ctx context.Context, r *Room) error {
		_, err := r.Client.CoreV1().ConfigMaps(r.Namespace).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}, Data: map[string]string{"key": "value"},
		}, metav1.CreateOptions{})
		return err
	}
}

func deleteConfigMap(name string, how metav1.DeletionPropagation) do {
	return func(ctx context.Context, r *Room) error {
		return r.Client.CoreV1().ConfigMaps(r.Namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &how})
	}
}

// owners makes objects with one owner, with two, and with one that there is not.
func owners(ctx context.Context, r *Room) error {
	if err := all(createConfigMap("first"), createConfigMap("second"))(ctx, r); err != nil {
		return err
	}
	reference := func(name string) (metav1.OwnerReference, error) {
		m, err := r.Client.CoreV1().ConfigMaps(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: m.GetUID()}, err
	}
	first, err := reference("first")
	if err != nil {
		return err
	}
	second, err := reference("second")
	if err != nil {
		return err
	}
	absent := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "absent", UID: "00000000-0000-4000-8000-000000000000"}
	return all(
		createConfigMap("of-first", first), createConfigMap("of-both", first, second), createConfigMap("of-absent", absent),
		createConfigMap("of-first-and-absent", first, absent),
	)(ctx, r)
}

func quota(ctx context.Context, r *Room) error {
	_, err := r.Client.CoreV1().ResourceQuotas(r.Namespace).Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "limits"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			corev1.ResourcePods: resource.MustParse("3"), corev1.ResourceRequestsCPU: resource.MustParse("1"),
			corev1.ResourceConfigMaps: resource.MustParse("5"), "count/deployments.apps": resource.MustParse("2"),
		}},
	}, metav1.CreateOptions{})
	return err
}

// used says whether the quota counts so many.
func used(what corev1.ResourceName, n string) func(context.Context, *Room) (bool, error) {
	return func(ctx context.Context, r *Room) (bool, error) {
		q, err := r.Client.CoreV1().ResourceQuotas(r.Namespace).Get(ctx, "limits", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		have := q.Status.Used[what]
		return have.Cmp(resource.MustParse(n)) == 0, nil
	}
}

func createAccount(name string) do {
	return func(ctx context.Context, r *Room) error {
		_, err := r.Client.CoreV1().ServiceAccounts(r.Namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	}
}

func createTokenSecret(name, account string) do {
	return func(ctx context.Context, r *Room) error {
		_, err := r.Client.CoreV1().Secrets(r.Namespace).Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}, metav1.CreateOptions{})
		return err
	}
}

// createClusterRole makes a role that may read resources, or one of such roles.
func createClusterRole(name string, resources []string, of string) do {
	return func(ctx context.Context, r *Room) error {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if of != "" {
			role.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"part-of": of}}}}
		} else {
			role.Labels = map[string]string{"part-of": r.Namespace}
			role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get", "list"}}}
		}
		_, err := r.Client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{})
		return err
	}
}
