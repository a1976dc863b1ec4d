package kube

import (
	"strings"

	"github.com/planekit/planekit/apiserver"
)

// metadataChecks has the strategies of kubernetes/pkg/registry v1.36 whose check of a change does not look at metadata as
// that of most others does.
var metadataChecks = func() map[string][]apiserver.MetadataCheck {
	all := map[string][]apiserver.MetadataCheck{}
	for _, of := range []struct {
		resources string
		checks    []apiserver.MetadataCheck
	}{
		{`configmaps. endpoints. persistentvolumeclaims. pods.
secrets. serviceaccounts. controllerrevisions.apps ingressclasses.networking.k8s.io
ingresses.networking.k8s.io apiservices.apiregistration.k8s.io`, []apiserver.MetadataCheck{apiserver.CheckChange, apiserver.CheckNew}},
		{`namespaces. nodes. jobs.batch ipaddresses.networking.k8s.io
runtimeclasses.node.k8s.io certificatesigningrequests.certificates.k8s.io certificatesigningrequests.certificates.k8s.io/status certificatesigningrequests.certificates.k8s.io/approval
clusterroles.rbac.authorization.k8s.io clusterrolebindings.rbac.authorization.k8s.io roles.rbac.authorization.k8s.io rolebindings.rbac.authorization.k8s.io
csistoragecapacities.storage.k8s.io storageclasses.storage.k8s.io`, []apiserver.MetadataCheck{apiserver.CheckNew, apiserver.CheckChange}},
		{`persistentvolumes.`, []apiserver.MetadataCheck{apiserver.CheckNew, apiserver.CheckNew}},
		{`limitranges. endpointslices.discovery.k8s.io flowschemas.flowcontrol.apiserver.k8s.io prioritylevelconfigurations.flowcontrol.apiserver.k8s.io
csinodes.storage.k8s.io volumeattachments.storage.k8s.io mutatingadmissionpolicies.admissionregistration.k8s.io mutatingadmissionpolicybindings.admissionregistration.k8s.io
mutatingwebhookconfigurations.admissionregistration.k8s.io validatingadmissionpolicies.admissionregistration.k8s.io validatingadmissionpolicybindings.admissionregistration.k8s.io validatingwebhookconfigurations.admissionregistration.k8s.io`, []apiserver.MetadataCheck{apiserver.CheckNew}},
		{`events. poddisruptionbudgets.policy poddisruptionbudgets.policy/status cronjobs.batch/status
flowschemas.flowcontrol.apiserver.k8s.io/status prioritylevelconfigurations.flowcontrol.apiserver.k8s.io/status`, []apiserver.MetadataCheck{}},
	} {
		for resource := range strings.FieldsSeq(of.resources) {
			all[resource] = of.checks
		}
	}
	return all
}()
