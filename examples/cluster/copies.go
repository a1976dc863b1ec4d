//lint:file-ignore SA1019 clients still read Endpoints

package main

import (
	"errors"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/kube/apiregistration"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/intern"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// copies are the local copies that all components of the process share.
type copies struct {
	namespaces          *informer.Informer[*corev1.Namespace]
	serviceAccounts     *informer.Informer[*corev1.ServiceAccount]
	configMaps          *informer.Informer[*corev1.ConfigMap]
	secrets             *informer.Informer[*corev1.Secret]
	nodes               *informer.Informer[*corev1.Node]
	leases              *informer.Informer[*coordinationv1.Lease]
	pods                *informer.Informer[*corev1.Pod]
	services            *informer.Informer[*corev1.Service]
	legacyEndpoints     *informer.Informer[*corev1.Endpoints]
	endpointSlices      *informer.Informer[*discoveryv1.EndpointSlice]
	apiServices         *informer.Informer[*apiregistration.APIService]
	deployments         *informer.Informer[*appsv1.Deployment]
	replicaSets         *informer.Informer[*appsv1.ReplicaSet]
	replications        *informer.Informer[*corev1.ReplicationController]
	budgets             *informer.Informer[*policyv1.PodDisruptionBudget]
	jobs                *informer.Informer[*batchv1.Job]
	roles               *informer.Informer[*rbacv1.Role]
	roleBindings        *informer.Informer[*rbacv1.RoleBinding]
	clusterRoles        *informer.Informer[*rbacv1.ClusterRole]
	clusterRoleBindings *informer.Informer[*rbacv1.ClusterRoleBinding]
	volumes             *informer.Informer[*corev1.PersistentVolume]
	attachments         *informer.Informer[*storagev1.VolumeAttachment]
	priorityClasses     *informer.Informer[*schedulingv1.PriorityClass]
	claims              *informer.Informer[*corev1.PersistentVolumeClaim]
	limitRanges         *informer.Informer[*corev1.LimitRange]
	resourceQuotas      *informer.Informer[*corev1.ResourceQuota]
	mutatingWebhooks    *informer.Informer[*admissionv1.MutatingWebhookConfiguration]
	validatingWebhooks  *informer.Informer[*admissionv1.ValidatingWebhookConfiguration]
	priorityLevels      *informer.Informer[*flowcontrolv1.PriorityLevelConfiguration]
	flowSchemas         *informer.Informer[*flowcontrolv1.FlowSchema]

	// others are of the kinds that only garbage collection asks for.
	others []otherKind

	names  map[string]bool
	starts []namedStart
}

// namedStart starts the copy of a resource.
type namedStart struct {
	name  string
	start func(*stack)
}

func newCopies(api *client.Client, log logr.Logger) (*copies, error) {
	c := &copies{names: map[string]bool{}}
	err := errors.Join(
		add(c, &c.namespaces, "namespaces", typed.Namespaces(api), log),
		add(c, &c.serviceAccounts, "serviceaccounts", typed.ServiceAccounts(api), log),
		add(c, &c.configMaps, "configmaps", typed.ConfigMaps(api), log),
		add(c, &c.secrets, "secrets", typed.Secrets(api), log),
		add(c, &c.nodes, "nodes", typed.Nodes(api), log),
		add(c, &c.leases, "leases", typed.Leases(api).Where(corev1.NamespaceNodeLease, "", ""), log),
		// Pods alone come by the thousand from one template.
		add(c, &c.pods, "pods", typed.Pods(api).WithUnmarshal(intern.New().UnmarshalPod), log),
		add(c, &c.services, "services", typed.Services(api), log),
		add(c, &c.legacyEndpoints, "endpoints", typed.Endpoints(api), log),
		add(c, &c.endpointSlices, "endpointslices", typed.EndpointSlices(api), log),
		add(c, &c.apiServices, "apiservices", apiServices(api), log),
		add(c, &c.deployments, "deployments", typed.Deployments(api), log),
		add(c, &c.replicaSets, "replicasets", typed.ReplicaSets(api), log),
		add(c, &c.replications, "replicationcontrollers", typed.ReplicationControllers(api), log),
		add(c, &c.budgets, "poddisruptionbudgets", typed.PodDisruptionBudgets(api), log),
		add(c, &c.jobs, "jobs", typed.Jobs(api), log),
		add(c, &c.roles, "roles", typed.Roles(api), log),
		add(c, &c.roleBindings, "rolebindings", typed.RoleBindings(api), log),
		add(c, &c.clusterRoles, "clusterroles", typed.ClusterRoles(api), log),
		add(c, &c.clusterRoleBindings, "clusterrolebindings", typed.ClusterRoleBindings(api), log),
		add(c, &c.volumes, "persistentvolumes", typed.PersistentVolumes(api), log),
		add(c, &c.attachments, "volumeattachments", typed.VolumeAttachments(api), log),
		add(c, &c.priorityClasses, "priorityclasses", typed.PriorityClasses(api), log),
		add(c, &c.claims, "persistentvolumeclaims", typed.PersistentVolumeClaims(api), log),
		add(c, &c.limitRanges, "limitranges", typed.LimitRanges(api), log),
		add(c, &c.resourceQuotas, "resourcequotas", typed.ResourceQuotas(api), log),
		add(c, &c.mutatingWebhooks, "mutatingwebhookconfigurations", typed.MutatingWebhookConfigurations(api), log),
		add(c, &c.validatingWebhooks, "validatingwebhookconfigurations", typed.ValidatingWebhookConfigurations(api), log),
		add(c, &c.priorityLevels, "prioritylevelconfigurations", typed.PriorityLevelConfigurations(api), log),
		add(c, &c.flowSchemas, "flowschemas", typed.FlowSchemas(api), log),
	)
	return c, errors.Join(err, c.addOthers(api, log))
}

func add[T client.Object](c *copies, to **informer.Informer[T], name string, source informer.Source[T], log logr.Logger) error {
	made, err := newCache(source, log.WithName(name))
	*to = made
	c.names[name] = true
	c.starts = append(c.starts, namedStart{name, func(s *stack) { s.start("informer of "+name, made.Run) }})
	return err
}

// start starts the copies that have not been started: the named, or all. They fill
// at the same time.
func (c *copies) start(s *stack, names ...string) {
	c.starts = slices.DeleteFunc(c.starts, func(one namedStart) bool {
		wanted := len(names) == 0 || slices.Contains(names, one.name)
		if wanted {
			one.start(s)
		}
		return wanted
	})
}

// newCache returns the cache of what source has.
func newCache[T client.Object](source informer.Source[T], log logr.Logger) (*informer.Informer[T], error) {
	config := informer.ObjectConfig(source)
	config.Log = log
	return informer.New(config)
}
