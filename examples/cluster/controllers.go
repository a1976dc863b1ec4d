package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"

	"github.com/go-logr/logr"
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
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// manager makes the controllers of the cluster. They act as one user and share
// the process's local copies.
type manager struct {
	api    *client.Client
	copies *copies
	events *events.Recorder
	log    logr.Logger
	ca     []byte // of the API server's certificate, in PEM
	// podsByController and the like are indexes of the copies.
	podsByController        *informer.Index[types.UID, *corev1.Pod]
	replicaSetsByController *informer.Index[types.UID, *appsv1.ReplicaSet]
}

// runner is a controller, ready to run.
type runner interface{ Run(context.Context) error }

func (c *cluster) newManager(ca []byte) (*manager, error) {
	api, err := c.clientFor(&user.Info{Name: user.ControllerManager, Groups: []string{user.Authenticated}})
	if err != nil {
		return nil, err
	}
	log := c.log.WithName("controllers")
	recorder, err := events.New(events.Config{Client: api, Component: "planekit-controllers", Log: log})
	if err != nil {
		return nil, err
	}
	return &manager{
		api: api, copies: c.copies, events: recorder, log: log, ca: ca,
		podsByController:        informer.NewIndex(c.copies.pods, controllers.ByController[*corev1.Pod]),
		replicaSetsByController: informer.NewIndex(c.copies.replicaSets, controllers.ByController[*appsv1.ReplicaSet]),
	}, nil
}

// start starts every controller and the recorder of their events.
func (m *manager) start(clusterCIDR netip.Prefix, s *stack) error {
	s.start("controllers' events", m.events.Run)
	for _, c := range []struct {
		name string
		make func() (runner, error)
	}{
		{"deployment controller", m.deployment},
		{"replica set controller", m.replicaSet},
		{"job controller", m.job},
		{"garbage collector", m.garbageCollector},
		{"namespace controller", m.namespace},
		{"service account controller", m.serviceAccount},
		{"root CA controller", m.rootCA},
		{"cluster role controller", m.clusterRole},
		{"resource quota controller", m.resourceQuota},
		{"node lifecycle controller", m.nodeLifecycle},
		{"pod garbage collector", m.podGarbage},
		{"node address controller", func() (runner, error) { return m.nodeIPAM(clusterCIDR) }},
	} {
		made, err := c.make()
		if err != nil {
			return err
		}
		s.start(c.name, made.Run)
	}
	return nil
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
		Log:                     m.log,
	})
}

func (m *manager) replicaSet() (runner, error) {
	return controllers.NewReplicaSet(controllers.ReplicaSetConfig{
		ReplicaSets:      m.copies.replicaSets,
		Pods:             m.copies.pods,
		PodsByController: m.podsByController,
		Status:           typed.ReplicaSets(m.api),
		Writer:           typed.Pods(m.api),
		Events:           m.events,
		Log:              m.log,
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
			controllers.NewGarbageKind(batch.WithKind("Job"), true, m.copies.jobs, typed.Jobs(m.api)),
			controllers.NewGarbageKind(core.WithKind("Pod"), true, m.copies.pods, typed.Pods(m.api)),
			controllers.NewGarbageKind(core.WithKind("ConfigMap"), true, m.copies.configMaps, typed.ConfigMaps(m.api)),
			controllers.NewGarbageKind(core.WithKind("Secret"), true, m.copies.secrets, typed.Secrets(m.api)),
			controllers.NewGarbageKind(core.WithKind("ServiceAccount"), true, m.copies.serviceAccounts, typed.ServiceAccounts(m.api)),
			controllers.NewGarbageKind(core.WithKind("Service"), true, m.copies.services, typed.Services(m.api)),
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
		}, m.otherGarbage()...),
		Log: m.log,
	})
}

func (m *manager) namespace() (runner, error) {
	return controllers.NewNamespace(controllers.NamespaceConfig{
		Namespaces: m.copies.namespaces,
		Contents:   m.emptiers(),
		Writer:     finalizer{m.api},
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

func (m *manager) nodeLifecycle() (runner, error) {
	return controllers.NewNodeLifecycle(controllers.NodeLifecycleConfig{
		Nodes:  m.copies.nodes,
		Leases: m.copies.leases,
		Writer: typed.Nodes(m.api),
		Events: m.events,
		Log:    m.log,
	})
}

func (m *manager) podGarbage() (runner, error) {
	return controllers.NewPodGarbage(controllers.PodGarbageConfig{
		Pods:       m.copies.pods,
		Nodes:      m.copies.nodes,
		NodeReader: typed.Nodes(m.api),
		Writer:     typed.Pods(m.api),
		Log:        m.log,
	})
}

func (m *manager) nodeIPAM(clusterCIDR netip.Prefix) (runner, error) {
	return controllers.NewNodeIPAM(controllers.NodeIPAMConfig{
		Nodes:    m.copies.nodes,
		Writer:   typed.Nodes(m.api),
		Cluster:  clusterCIDR,
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
