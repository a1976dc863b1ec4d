package convergence

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/account"
	"github.com/planekit/planekit/reconcile/controllers/clusterrole"
	deploymentcontroller "github.com/planekit/planekit/reconcile/controllers/deployment"
	"github.com/planekit/planekit/reconcile/controllers/disruption"
	"github.com/planekit/planekit/reconcile/controllers/endpoints"
	"github.com/planekit/planekit/reconcile/controllers/garbage"
	jobcontroller "github.com/planekit/planekit/reconcile/controllers/job"
	"github.com/planekit/planekit/reconcile/controllers/namespace"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	quotacontroller "github.com/planekit/planekit/reconcile/controllers/quota"
	"github.com/planekit/planekit/reconcile/controllers/replicaset"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ours are our controllers at work over the wire.
type ours struct {
	parts
	api *client.Client
	log logr.Logger

	namespaces      *informer.Informer[*corev1.Namespace]
	pods            *informer.Informer[*corev1.Pod]
	configMaps      *informer.Informer[*corev1.ConfigMap]
	secrets         *informer.Informer[*corev1.Secret]
	accounts        *informer.Informer[*corev1.ServiceAccount]
	services        *informer.Informer[*corev1.Service]
	endpoints       *informer.Informer[*corev1.Endpoints]
	endpointSlices  *informer.Informer[*discoveryv1.EndpointSlice]
	quotas          *informer.Informer[*corev1.ResourceQuota]
	deployments     *informer.Informer[*appsv1.Deployment]
	replicaSets     *informer.Informer[*appsv1.ReplicaSet]
	replications    *informer.Informer[*corev1.ReplicationController]
	budgets         *informer.Informer[*policyv1.PodDisruptionBudget]
	jobs            *informer.Informer[*batchv1.Job]
	clusterRoles    *informer.Informer[*rbacv1.ClusterRole]
	nodes           *informer.Informer[*corev1.Node]
	podsBy          *informer.Index[types.UID, *corev1.Pod]
	replicaSetsByID *informer.Index[types.UID, *appsv1.ReplicaSet]
}

// OurControllers runs our controllers against the server that a kubeconfig leads
// to, until the test ends.
func OurControllers(t testing.TB, path string) {
	t.Helper()
	loaded, err := kubeconfig.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	config, _, err := loaded.Client("")
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	o := &ours{parts: parts{t: t}, api: api, log: funcr.New(func(prefix, args string) { t.Log(prefix, args) }, funcr.Options{})}
	o.copy()
	o.workloads()
	o.network()
	o.housekeeping()
	o.start()
}

func (o *ours) copy() {
	p, api := &o.parts, o.api
	o.namespaces = newCache(p, typed.Namespaces(api))
	o.pods = newCache(p, typed.Pods(api))
	o.configMaps = newCache(p, typed.ConfigMaps(api))
	o.secrets = newCache(p, typed.Secrets(api))
	o.accounts = newCache(p, typed.ServiceAccounts(api))
	o.services = newCache(p, typed.Services(api))
	o.endpoints = newCache(p, typed.Endpoints(api))
	o.endpointSlices = newCache(p, typed.EndpointSlices(api))
	o.quotas = newCache(p, typed.ResourceQuotas(api))
	o.deployments = newCache(p, typed.Deployments(api))
	o.replicaSets = newCache(p, typed.ReplicaSets(api))
	o.replications = newCache(p, typed.ReplicationControllers(api))
	o.budgets = newCache(p, typed.PodDisruptionBudgets(api))
	o.jobs = newCache(p, typed.Jobs(api))
	o.clusterRoles = newCache(p, typed.ClusterRoles(api))
	o.nodes = newCache(p, typed.Nodes(api))
	o.podsBy = informer.NewIndex(o.pods, owner.ByController[*corev1.Pod])
	o.replicaSetsByID = informer.NewIndex(o.replicaSets, owner.ByController[*appsv1.ReplicaSet])
}

// add takes a controller that was made.
func (o *ours) add(c interface{ Run(context.Context) error }, err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
	o.runs = append(o.runs, c.Run)
}

// recorder records the events of one controller, under its name in Kubernetes.
func (o *ours) recorder(component string) *events.Recorder {
	o.t.Helper()
	recorder, err := events.New(events.Config{Client: o.api, Component: component, Log: o.log})
	o.add(recorder, err)
	return recorder
}

func (o *ours) workloads() {
	o.add(deploymentcontroller.New(deploymentcontroller.Config{
		Deployments: o.deployments, ReplicaSets: o.replicaSets, Pods: o.pods,
		ReplicaSetsByController: o.replicaSetsByID, PodsByController: o.podsBy,
		Writer: typed.Deployments(o.api), ReplicaSetWriter: typed.ReplicaSets(o.api),
		Events: o.recorder("deployment-controller"), Log: o.log,
	}))
	o.add(replicaset.New(replicaset.Config{
		ReplicaSets: o.replicaSets, Pods: o.pods, PodsByController: o.podsBy,
		Writer: typed.ReplicaSets(o.api), PodWriter: typed.Pods(o.api),
		Events: o.recorder("replicaset-controller"), Log: o.log,
	}))
	o.add(replicaset.NewReplicationController(replicaset.ReplicationControllerConfig{
		ReplicationControllers: o.replications, Pods: o.pods, PodsByController: o.podsBy,
		Writer: typed.ReplicationControllers(o.api), PodWriter: typed.Pods(o.api),
		Events: o.recorder("replication-controller"), Log: o.log,
	}))
	o.add(disruption.New(disruption.Config{
		Budgets: o.budgets, Pods: o.pods, Deployments: o.deployments, ReplicaSets: o.replicaSets, ReplicationControllers: o.replications,
		BudgetsByNamespace: informer.NewIndex(o.budgets, controllers.ByNamespace[*policyv1.PodDisruptionBudget]),
		PodsByNamespace:    informer.NewIndex(o.pods, controllers.ByNamespace[*corev1.Pod]),
		Writer:             typed.PodDisruptionBudgets(o.api), PodWriter: typed.Pods(o.api),
		Events: o.recorder("controllermanager"), Log: o.log,
	}))
	o.add(jobcontroller.New(jobcontroller.Config{
		Jobs: o.jobs, Pods: o.pods, PodsByController: o.podsBy,
		Writer: typed.Jobs(o.api), PodWriter: typed.Pods(o.api),
		Events: o.recorder("job-controller"), Log: o.log,
	}))
}

func (o *ours) network() {
	services := informer.NewIndex(o.services, controllers.ByNamespace[*corev1.Service])
	pods := informer.NewIndex(o.pods, controllers.ByNamespace[*corev1.Pod])
	slices := informer.NewIndex(o.endpointSlices, endpoints.ByService)
	o.add(endpoints.New(endpoints.Config{
		Services: o.services, Pods: o.pods, Endpoints: o.endpoints, ServicesByNamespace: services, PodsByNamespace: pods,
		ServiceReader: typed.Services(o.api), Writer: typed.Endpoints(o.api),
		Events: o.recorder("endpoint-controller"), Log: o.log,
	}))
	o.add(endpoints.NewSlices(endpoints.SliceConfig{
		Services: o.services, Pods: o.pods, Nodes: o.nodes, EndpointSlices: o.endpointSlices,
		ServicesByNamespace: services, PodsByNamespace: pods,
		SlicesByService: slices, Writer: typed.EndpointSlices(o.api),
		Events: o.recorder("endpoint-slice-controller"), Log: o.log,
	}))
	o.add(endpoints.NewMirror(endpoints.MirrorConfig{
		Services: o.services, Endpoints: o.endpoints, EndpointSlices: o.endpointSlices,
		SlicesByService: slices, Writer: typed.EndpointSlices(o.api),
		Events: o.recorder("endpoint-slice-mirroring-controller"), Log: o.log,
	}))
}

func (o *ours) housekeeping() {
	o.add(jobcontroller.NewTTLAfterFinished(jobcontroller.TTLAfterFinishedConfig{Jobs: o.jobs, Writer: typed.Jobs(o.api), Log: o.log}))
	core := corev1.SchemeGroupVersion
	o.add(garbage.New(garbage.Config{
		Kinds: []garbage.Kind{
			garbage.NewKind(appsv1.SchemeGroupVersion.WithKind("Deployment"), true, o.deployments, typed.Deployments(o.api)),
			garbage.NewKind(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), true, o.replicaSets, typed.ReplicaSets(o.api)),
			garbage.NewKind(core.WithKind("ReplicationController"), true, o.replications, typed.ReplicationControllers(o.api)),
			garbage.NewKind(batchv1.SchemeGroupVersion.WithKind("Job"), true, o.jobs, typed.Jobs(o.api)),
			garbage.NewKind(core.WithKind("Pod"), true, o.pods, typed.Pods(o.api)),
			garbage.NewKind(core.WithKind("ConfigMap"), true, o.configMaps, typed.ConfigMaps(o.api)),
			garbage.NewKind(core.WithKind("Secret"), true, o.secrets, typed.Secrets(o.api)),
			garbage.NewKind(core.WithKind("ServiceAccount"), true, o.accounts, typed.ServiceAccounts(o.api)),
			garbage.NewKind(core.WithKind("Service"), true, o.services, typed.Services(o.api)),
			garbage.NewKind(core.WithKind("Endpoints"), true, o.endpoints, typed.Endpoints(o.api)),
			garbage.NewKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), true, o.endpointSlices, typed.EndpointSlices(o.api)),
		},
		Log: o.log,
	}))
	o.add(namespace.New(namespace.Config{
		Namespaces: o.namespaces, Writer: finalizer{o.api}, StatusWriter: typed.Namespaces(o.api), Log: o.log,
		Contents: func(context.Context) ([]namespace.Content, error) { return o.contents(), nil },
	}))
	o.add(account.NewServiceAccount(account.ServiceAccountConfig{
		Namespaces: o.namespaces, ServiceAccounts: o.accounts, Writer: typed.ServiceAccounts(o.api), Log: o.log,
	}))
	o.add(account.NewToken(account.TokenConfig{
		ServiceAccounts: o.accounts, Secrets: o.secrets, ServiceAccountWriter: typed.ServiceAccounts(o.api), Writer: typed.Secrets(o.api),
		SecretsByNamespace: informer.NewIndex(o.secrets, controllers.ByNamespace[*corev1.Secret]),
		Sign:               o.signer(), CA: []byte(Authority), Log: o.log,
	}))
	o.add(account.NewRootCA(account.RootCAConfig{
		Namespaces: o.namespaces, ConfigMaps: o.configMaps, Writer: typed.ConfigMaps(o.api), CA: []byte(Authority), Log: o.log,
	}))
	o.add(clusterrole.New(clusterrole.Config{
		ClusterRoles: o.clusterRoles, Writer: typed.ClusterRoles(o.api), Log: o.log,
	}))
	o.add(quotacontroller.New(quotacontroller.Config{
		ResourceQuotas: o.quotas, Writer: typed.ResourceQuotas(o.api), Log: o.log,
		Kinds: []quotacontroller.Kind{
			quotacontroller.NewKind(corev1.Resource("pods"), o.pods),
			quotacontroller.NewKind(corev1.Resource("configmaps"), o.configMaps),
			quotacontroller.NewKind(appsv1.Resource("deployments"), o.deployments),
		},
	}))
}

// contents deletes the content of a namespace: owners before the objects they make, events last.
func (o *ours) contents() []namespace.Content {
	order := []string{"deployments", "replicationcontrollers", "replicasets", "jobs", "pods", "", "events"} // all others in the middle
	rank := func(r apiserver.Resource) int {
		if i := slices.Index(order, r.Plural); i >= 0 {
			return i
		}
		return slices.Index(order, "")
	}
	resources := kube.Resources()
	slices.SortStableFunc(resources, func(a, b apiserver.Resource) int { return rank(a) - rank(b) })
	var out []namespace.Content
	for _, r := range resources {
		if r.Namespaced && r.Answer == nil {
			out = append(out, namespace.Content{
				Resource: schema.GroupResource{Group: r.Group, Resource: r.Plural}, Empty: o.emptier(r),
			})
		}
	}
	return out
}

// emptier deletes all objects of a resource in a namespace, and counts what is left.
func (o *ours) emptier(r apiserver.Resource) func(context.Context, string) (namespace.Remaining, error) {
	objects := client.For(o.api, client.Type[*metav1.PartialObjectMetadata]{
		Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, Namespaced: true,
		New: func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
	})
	background := metav1.DeletePropagationBackground
	return func(ctx context.Context, name string) (namespace.Remaining, error) {
		failed := objects.DeleteCollection(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{})
		left, _, err := objects.List(ctx, name, metav1.ListOptions{})
		remains := namespace.Remaining{Objects: len(left), Finalizers: map[string]int{}}
		for _, object := range left {
			for _, finalizer := range object.Finalizers {
				remains.Finalizers[finalizer]++
			}
		}
		return remains, errors.Join(failed, err)
	}
}

// signer signs the tokens that are kept in secrets. No scenario uses a token to
// authenticate.
func (o *ours) signer() account.TokenSigner {
	o.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		o.t.Fatal(err)
	}
	signer, err := serviceaccount.NewSigner(serviceaccount.LegacyIssuer, key)
	if err != nil {
		o.t.Fatal(err)
	}
	return func(account *corev1.ServiceAccount, secret *corev1.Secret) (string, error) {
		return signer.SignLegacy(account.Namespace, serviceaccount.Ref{Name: account.Name, UID: string(account.UID)}, secret.Name)
	}
}

// finalizer writes the finalizers of namespaces.
type finalizer struct{ api *client.Client }

func (f finalizer) Finalize(ctx context.Context, namespace *corev1.Namespace) error {
	whole := namespace.DeepCopy()
	whole.APIVersion, whole.Kind = "v1", "Namespace"
	body, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	_, err = f.api.Do(ctx, client.Request{Method: http.MethodPut, Path: "/api/v1/namespaces/" + namespace.Name + "/finalize", Body: body})
	return err
}
