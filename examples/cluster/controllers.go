package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/events"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile/controllers"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// manager makes the controllers of the cluster, which share the process's local
// copies. Each of them acts as a user of its own, by a copy of the manager with
// that user's client.
type manager struct {
	cluster *cluster
	copies  *copies
	api     *client.Client
	events  *events.Recorder
	log     logr.Logger
	ca      []byte // of the API server's certificate, in PEM
	// podsByController and the like are indexes of the copies.
	podsByController        *informer.Index[types.UID, *corev1.Pod]
	replicaSetsByController *informer.Index[types.UID, *appsv1.ReplicaSet]
	podsByNamespace         *informer.Index[string, *corev1.Pod]
	servicesByNamespace     *informer.Index[string, *corev1.Service]
	budgetsByNamespace      *informer.Index[string, *policyv1.PodDisruptionBudget]
	secretsByNamespace      *informer.Index[string, *corev1.Secret]
	podsByNode              *informer.Index[string, *corev1.Pod]
}

// runner is a controller, ready to run.
type runner interface{ Run(context.Context) error }

func (c *cluster) newManager(ca []byte) *manager {
	return &manager{
		cluster: c, copies: c.copies, log: c.log.WithName("controllers"), ca: ca,
		podsByController:        informer.NewIndex(c.copies.pods, controllers.ByController[*corev1.Pod]),
		replicaSetsByController: informer.NewIndex(c.copies.replicaSets, controllers.ByController[*appsv1.ReplicaSet]),
		podsByNamespace:         informer.NewIndex(c.copies.pods, controllers.ByNamespace[*corev1.Pod]),
		servicesByNamespace:     informer.NewIndex(c.copies.services, controllers.ByNamespace[*corev1.Service]),
		budgetsByNamespace:      informer.NewIndex(c.copies.budgets, controllers.ByNamespace[*policyv1.PodDisruptionBudget]),
		secretsByNamespace:      informer.NewIndex(c.copies.secrets, controllers.ByNamespace[*corev1.Secret]),
		podsByNode:              informer.NewIndex(c.copies.pods, controllers.ByNode),
	}
}

// controllerMakers make the controllers, by the names of kube-controller-manager.
func controllerMakers() map[string]func(*manager) (runner, error) {
	return map[string]func(*manager) (runner, error){
		"clusterrole-aggregation-controller":       (*manager).clusterRole,
		"deployment-controller":                    (*manager).deployment,
		"disruption-controller":                    (*manager).disruption,
		"endpoints-controller":                     (*manager).legacyEndpoints,
		"endpointslice-controller":                 (*manager).endpointSlice,
		"endpointslice-mirroring-controller":       (*manager).endpointSliceMirror,
		"garbage-collector-controller":             (*manager).garbageCollector,
		"job-controller":                           (*manager).job,
		"namespace-controller":                     (*manager).namespace,
		"node-ipam-controller":                     (*manager).nodeIPAM,
		"node-lifecycle-controller":                (*manager).nodeLifecycle,
		"pod-garbage-collector-controller":         (*manager).podGarbage,
		"replicaset-controller":                    (*manager).replicaSet,
		"replicationcontroller-controller":         (*manager).replicationController,
		"resourcequota-controller":                 (*manager).resourceQuota,
		"root-ca-certificate-publisher-controller": (*manager).rootCA,
		"serviceaccount-controller":                (*manager).serviceAccount,
		"serviceaccount-token-controller":          (*manager).token,
		"taint-eviction-controller":                (*manager).taintEviction,
		"ttl-after-finished-controller":            (*manager).ttlAfterFinished,
	}
}

// start starts the chosen controllers, when it is their turn to lead, and the
// recorders of their events.
func (m *manager) start(s *stack) error {
	var table []controllers.Entry
	makers := controllerMakers()
	for _, known := range controllers.KnownControllers() {
		makes := makers[known.Name]
		actor, err := m.as(known)
		if err != nil {
			return err
		}
		s.start("events of "+known.Name, actor.events.Run)
		table = append(table, controllers.Entry{Name: known.Name, Alias: known.Alias, Start: func() (controllers.Runner, error) {
			return m.watched(makes(actor))
		}})
	}
	o := &m.cluster.options.controllers
	all, err := controllers.NewManager(controllers.ManagerConfig{Controllers: table, Choose: o.choose, Log: m.log})
	if err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	if !o.elect {
		s.start("controllers", all.Run)
		return nil
	}
	elector, err := m.elector(all)
	if err != nil {
		return err
	}
	s.start("controllers", elector.Run)
	return nil
}

// as returns the manager as a controller that acts by itself.
func (m *manager) as(known controllers.Known) (*manager, error) {
	u := &user.Info{Name: user.ControllerManager, Groups: []string{user.Authenticated}}
	if known.Account != "" {
		u = &user.Info{
			Name:   serviceaccount.Username(metav1.NamespaceSystem, known.Account),
			Groups: []string{user.ServiceAccounts, user.ServiceAccounts + ":" + metav1.NamespaceSystem, user.Authenticated},
		}
	}
	actor := *m
	var err error
	if actor.api, err = m.cluster.clientAs(u, known.Name); err != nil {
		return nil, err
	}
	actor.events, err = events.New(events.Config{Client: actor.api, Component: known.Component, Log: m.log})
	return &actor, err
}

func (m *manager) deployment() (runner, error) {
	return controllers.NewDeployment(controllers.DeploymentConfig{
		Deployments:             m.copies.deployments,
		ReplicaSets:             m.copies.replicaSets,
		Pods:                    m.copies.pods,
		ReplicaSetsByController: m.replicaSetsByController,
		PodsByController:        m.podsByController,
		Writer:                  typed.Deployments(m.api),
		ReplicaSetWriter:        typed.ReplicaSets(m.api),
		Events:                  m.events,
		Workers:                 m.workersOf("concurrent-deployment-syncs"),
		Log:                     m.log,
	})
}

func (m *manager) replicaSet() (runner, error) {
	return controllers.NewReplicaSet(controllers.ReplicaSetConfig{
		ReplicaSets:             m.copies.replicaSets,
		Pods:                    m.copies.pods,
		ReplicaSetsByController: m.replicaSetsByController,
		PodsByController:        m.podsByController,
		Status:                  typed.ReplicaSets(m.api),
		Writer:                  typed.Pods(m.api),
		Events:                  m.events,
		Workers:                 m.workersOf("concurrent-replicaset-syncs"),
		Log:                     m.log,
	})
}

func (m *manager) job() (runner, error) {
	return controllers.NewJob(controllers.JobConfig{
		Jobs:             m.copies.jobs,
		Pods:             m.copies.pods,
		PodsByController: m.podsByController,
		Status:           typed.Jobs(m.api),
		Writer:           typed.Pods(m.api),
		Events:           m.events,
		Workers:          m.workersOf("concurrent-job-syncs"),
		Log:              m.log,
	})
}

// garbageCollector follows owner references between objects of these kinds.
func (m *manager) garbageCollector() (runner, error) {
	core, apps, batch, hooks := corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, batchv1.SchemeGroupVersion, admissionv1.SchemeGroupVersion
	return controllers.NewGarbage(controllers.GarbageConfig{
		Kinds: append([]controllers.GarbageKind{
			controllers.NewGarbageKind(apps.WithKind("Deployment"), true, m.copies.deployments, typed.Deployments(m.api)),
			controllers.NewGarbageKind(apps.WithKind("ReplicaSet"), true, m.copies.replicaSets, typed.ReplicaSets(m.api)),
			controllers.NewGarbageKind(core.WithKind("ReplicationController"), true, m.copies.replications, typed.ReplicationControllers(m.api)),
			controllers.NewGarbageKind(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), true, m.copies.budgets, typed.PodDisruptionBudgets(m.api)),
			controllers.NewGarbageKind(batch.WithKind("Job"), true, m.copies.jobs, typed.Jobs(m.api)),
			controllers.NewGarbageKind(core.WithKind("Pod"), true, m.copies.pods, typed.Pods(m.api)),
			controllers.NewGarbageKind(core.WithKind("ConfigMap"), true, m.copies.configMaps, typed.ConfigMaps(m.api)),
			controllers.NewGarbageKind(core.WithKind("Secret"), true, m.copies.secrets, typed.Secrets(m.api)),
			controllers.NewGarbageKind(core.WithKind("ServiceAccount"), true, m.copies.serviceAccounts, typed.ServiceAccounts(m.api)),
			controllers.NewGarbageKind(core.WithKind("Service"), true, m.copies.services, typed.Services(m.api)),
			controllers.NewGarbageKind(core.WithKind("Endpoints"), true, m.copies.legacyEndpoints, typed.Endpoints(m.api)),
			controllers.NewGarbageKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"), true, m.copies.endpointSlices, typed.EndpointSlices(m.api)),
			controllers.NewGarbageKind(apiServiceKind, false, m.copies.apiServices, apiServices(m.api)),
			controllers.NewGarbageKind(core.WithKind("Node"), false, m.copies.nodes, typed.Nodes(m.api)),
			controllers.NewGarbageKind(core.WithKind("PersistentVolumeClaim"), true, m.copies.claims, typed.PersistentVolumeClaims(m.api)),
			controllers.NewGarbageKind(core.WithKind("LimitRange"), true, m.copies.limitRanges, typed.LimitRanges(m.api)),
			controllers.NewGarbageKind(core.WithKind("ResourceQuota"), true, m.copies.resourceQuotas, typed.ResourceQuotas(m.api)),
			controllers.NewGarbageKind(core.WithKind("PersistentVolume"), false, m.copies.volumes, typed.PersistentVolumes(m.api)),
			controllers.NewGarbageKind(storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"), false, m.copies.attachments, typed.VolumeAttachments(m.api)),
			controllers.NewGarbageKind(schedulingv1.SchemeGroupVersion.WithKind("PriorityClass"), false, m.copies.priorityClasses, typed.PriorityClasses(m.api)),
			controllers.NewGarbageKind(hooks.WithKind("MutatingWebhookConfiguration"), false, m.copies.mutatingWebhooks, typed.MutatingWebhookConfigurations(m.api)),
			controllers.NewGarbageKind(hooks.WithKind("ValidatingWebhookConfiguration"), false, m.copies.validatingWebhooks, typed.ValidatingWebhookConfigurations(m.api)),
			controllers.NewGarbageKind(flowcontrolv1.SchemeGroupVersion.WithKind("PriorityLevelConfiguration"), false, m.copies.priorityLevels, typed.PriorityLevelConfigurations(m.api)),
			controllers.NewGarbageKind(flowcontrolv1.SchemeGroupVersion.WithKind("FlowSchema"), false, m.copies.flowSchemas, typed.FlowSchemas(m.api)),
		}, m.otherGarbage()...),
		Workers: m.workersOf("concurrent-gc-syncs"),
		Log:     m.log,
	})
}

func (m *manager) namespace() (runner, error) {
	return controllers.NewNamespace(controllers.NamespaceConfig{
		Namespaces: m.copies.namespaces,
		Contents:   m.contents,
		Writer:     finalizer{m.api},
		Status:     typed.Namespaces(m.api),
		Workers:    m.workersOf("concurrent-namespace-syncs"),
		Log:        m.log,
	})
}

func (m *manager) serviceAccount() (runner, error) {
	return controllers.NewServiceAccount(controllers.ServiceAccountConfig{
		Namespaces:      m.copies.namespaces,
		ServiceAccounts: m.copies.serviceAccounts,
		Writer:          typed.ServiceAccounts(m.api),
		Log:             m.log,
	})
}

func (m *manager) endpointSlice() (runner, error) {
	return controllers.NewEndpointSlice(m.endpointSliceConfig())
}

func (m *manager) endpointSliceConfig() controllers.EndpointSliceConfig {
	return controllers.EndpointSliceConfig{
		Services:            m.copies.services,
		Pods:                m.copies.pods,
		Nodes:               m.copies.nodes,
		EndpointSlices:      m.copies.endpointSlices,
		ServicesByNamespace: m.servicesByNamespace,
		PodsByNamespace:     m.podsByNamespace,
		SlicesByService:     m.cluster.endpoints,
		MaxEndpoints:        m.tuning().sliceEndpoints,
		BatchPeriod:         m.tuning().slicesBatch,
		Writer:              typed.EndpointSlices(m.api),
		Events:              m.events,
		Workers:             m.workersOf("concurrent-service-endpoint-syncs"),
		Log:                 m.log,
	}
}

func (m *manager) endpointSliceMirror() (runner, error) {
	return controllers.NewEndpointSliceMirror(m.endpointSliceMirrorConfig())
}

func (m *manager) endpointSliceMirrorConfig() controllers.EndpointSliceMirrorConfig {
	return controllers.EndpointSliceMirrorConfig{
		Services:        m.copies.services,
		Endpoints:       m.copies.legacyEndpoints,
		EndpointSlices:  m.copies.endpointSlices,
		SlicesByService: m.cluster.endpoints,
		MaxEndpoints:    m.tuning().mirroredEndpoints,
		BatchPeriod:     m.tuning().mirrorsBatch,
		Writer:          typed.EndpointSlices(m.api),
		Events:          m.events,
		Workers:         m.workersOf("mirroring-concurrent-service-endpoint-syncs"),
		Log:             m.log,
	}
}

// legacyEndpoints are for clients that do not know slices.
func (m *manager) legacyEndpoints() (runner, error) {
	return controllers.NewEndpoints(m.legacyEndpointsConfig())
}

func (m *manager) legacyEndpointsConfig() controllers.EndpointsConfig {
	return controllers.EndpointsConfig{
		Services:            m.copies.services,
		Pods:                m.copies.pods,
		Endpoints:           m.copies.legacyEndpoints,
		ServicesByNamespace: m.servicesByNamespace,
		PodsByNamespace:     m.podsByNamespace,
		ServiceReader:       typed.Services(m.api),
		BatchPeriod:         m.tuning().endpointsBatch,
		Writer:              typed.Endpoints(m.api),
		Events:              m.events,
		Workers:             m.workersOf("concurrent-endpoint-syncs"),
		Log:                 m.log,
	}
}

func (m *manager) nodeLifecycle() (runner, error) {
	return controllers.NewNodeLifecycle(m.nodeLifecycleConfig())
}

func (m *manager) nodeLifecycleConfig() controllers.NodeLifecycleConfig {
	return controllers.NodeLifecycleConfig{
		Nodes:        m.copies.nodes,
		Leases:       m.copies.leases,
		Writer:       typed.Nodes(m.api),
		Pods:         m.podsByNode,
		PodStatus:    typed.Pods(m.api),
		PodCache:     m.copies.pods,
		Grace:        m.tuning().nodeGrace,
		StartupGrace: m.tuning().nodeStartupGrace,
		Limits:       m.tuning().limits(),
		Events:       m.events,
		Log:          m.log,
	}
}

func (m *manager) taintEviction() (runner, error) {
	return controllers.NewTaintEviction(controllers.TaintEvictionConfig{
		Pods:       m.copies.pods,
		Nodes:      m.copies.nodes,
		PodsByNode: m.podsByNode,
		Writer:     typed.Pods(m.api),
		Events:     m.events,
		Log:        m.log,
	})
}

func (m *manager) ttlAfterFinished() (runner, error) {
	return controllers.NewTTLAfterFinished(controllers.TTLAfterFinishedConfig{
		Jobs:    m.copies.jobs,
		Writer:  typed.Jobs(m.api),
		Workers: m.workersOf("concurrent-ttl-after-finished-syncs"),
		Log:     m.log,
	})
}

func (m *manager) podGarbage() (runner, error) {
	return controllers.NewPodGarbage(controllers.PodGarbageConfig{
		Pods:       m.copies.pods,
		Nodes:      m.copies.nodes,
		NodeReader: typed.Nodes(m.api),
		Ended:      m.tuning().keptPods(),
		Writer:     typed.Pods(m.api),
		Log:        m.log,
	})
}

func (m *manager) nodeIPAM() (runner, error) {
	return controllers.NewNodeIPAM(controllers.NodeIPAMConfig{
		Nodes:    m.copies.nodes,
		Writer:   typed.Nodes(m.api),
		Cluster:  m.cluster.podNetwork,
		NodeBits: nodeBits,
		Events:   m.events,
		Log:      m.log,
	})
}

// finalizer writes the finalizers of namespaces, which have a subresource of
// their own.
type finalizer struct{ api *client.Client }

func (f finalizer) Finalize(ctx context.Context, namespace *corev1.Namespace) error {
	whole := namespace.DeepCopy()
	whole.APIVersion, whole.Kind = "v1", "Namespace"
	body, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	_, err = f.api.Do(ctx, client.Request{
		Method: http.MethodPut, Path: "/api/v1/namespaces/" + namespace.Name + "/finalize", Body: body,
	})
	return err
}
