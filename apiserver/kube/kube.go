package kube

import (
	"slices"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/admissionregistration"
	"github.com/planekit/planekit/apiserver/kube/apiregistration"
	"github.com/planekit/planekit/apiserver/kube/apps"
	"github.com/planekit/planekit/apiserver/kube/autoscaling"
	"github.com/planekit/planekit/apiserver/kube/batch"
	"github.com/planekit/planekit/apiserver/kube/certificates"
	"github.com/planekit/planekit/apiserver/kube/coordination"
	"github.com/planekit/planekit/apiserver/kube/core"
	"github.com/planekit/planekit/apiserver/kube/discovery"
	"github.com/planekit/planekit/apiserver/kube/events"
	"github.com/planekit/planekit/apiserver/kube/flowcontrol"
	"github.com/planekit/planekit/apiserver/kube/internal/warn"
	"github.com/planekit/planekit/apiserver/kube/networking"
	"github.com/planekit/planekit/apiserver/kube/node"
	"github.com/planekit/planekit/apiserver/kube/policy"
	"github.com/planekit/planekit/apiserver/kube/rbac"
	"github.com/planekit/planekit/apiserver/kube/scheduling"
	"github.com/planekit/planekit/apiserver/kube/storage"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
)

// Config holds what the resources need to know about a cluster. Zero is useful.
type Config = core.Config

// PortRange is from First to Last, both included.
type PortRange = core.PortRange

// Resources returns the resources of all groups, core first. The slice belongs to the caller.
func Resources() []apiserver.Resource { return ResourcesFor(Config{}) }

// ResourcesFor returns the resources of all groups for the cluster that c describes.
func ResourcesFor(c Config) []apiserver.Resource {
	all := slices.Concat(
		core.Resources(c),
		apps.Resources(),
		autoscaling.Resources(),
		batch.Resources(),
		apiregistration.Resources(),
		admissionregistration.Resources(),
		certificates.Resources(),
		coordination.Resources(),
		events.Resources(),
		discovery.Resources(),
		flowcontrol.Resources(),
		networking.Resources(),
		node.Resources(),
		policy.Resources(),
		rbac.Resources(),
		scheduling.Resources(),
		storage.Resources(),
	)
	for i := range all {
		resource, s := all[i].Plural+"."+all[i].Group, &all[i].Strategy
		s.ShowDeleted, s.Warnings = slices.Contains(shownDeleted, resource), warn.For(resource)
		s.MetadataChecks = metadataChecks[resource]
		s.QualifiedFinalizers = !slices.Contains(anyFinalizers, all[i].Group) && resource != "events."
		for j, sub := range all[i].Subresources {
			if status, ok := sub.(apiserver.Status); ok {
				status.Strategy.MetadataChecks = metadataChecks[resource+"/"+sub.SubresourceName()]
				if sub.SubresourceName() == "status" {
					status.Strategy.Warnings = warn.For(resource + "/status")
				}
				all[i].Subresources[j] = status
			}
		}
	}
	return all
}

// shownDeleted lists the resources of which a delete shows the object, those with ReturnDeletedObject in
// kubernetes/pkg/registry v1.36.
var shownDeleted = []string{
	"namespaces.", "persistentvolumeclaims.", "persistentvolumes.", "pods.", "podtemplates.", "resourcequotas.", "serviceaccounts.", "services.",
	"csidrivers.storage.k8s.io", "csinodes.storage.k8s.io", "storageclasses.storage.k8s.io", "volumeattachments.storage.k8s.io",
	"volumeattributesclasses.storage.k8s.io",
}

// anyFinalizers lists the groups whose finalizers need no domain, because kubernetes/pkg/apis v1.36 checks their metadata
// with the package apimachinery/pkg/api/validation alone.
var anyFinalizers = []string{"admissionregistration.k8s.io", "apiregistration.k8s.io", "coordination.k8s.io", "node.k8s.io", "policy"}

// InitializerConfigurations is the resource that configures the plugin of package
// admission/initializers. Kubernetes removed this alpha API, so [Resources] does not have it: a
// program with the plugin adds it.
func InitializerConfigurations() apiserver.Resource {
	return admissionregistration.InitializerConfigurations()
}

// Namespaces returns the namespaces every cluster begins with, complete but for
// what the server gives an object: UID and creation time.
func Namespaces() []*corev1.Namespace { return core.InitialNamespaces() }

// PriorityClasses returns the classes every cluster begins with.
func PriorityClasses() []*schedulingv1.PriorityClass { return scheduling.SystemPriorityClasses() }
