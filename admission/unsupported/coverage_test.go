package unsupported

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// Where the fields that no row names are acted on: each file reads them.
const (
	kubeletFiles     = "../../kubelet/"
	schedulerFiles   = "../../schedule/"
	controllersFiles = "../../reconcile/controllers/"
	serverFiles      = "../../apiserver/kube/"
	pluginFiles      = "../../admission/"
)

// actedOn says of each type which file acts on which of its fields, by their names in Go.
var actedOn = []struct {
	of     any
	fields map[string]string
}{
	{corev1.PodSpec{}, map[string]string{
		kubeletFiles + "volumes/volumes.go":                   "Volumes",
		kubeletFiles + "internal/lifecycle/plancontainers.go": "InitContainers Containers RestartPolicy",
		kubeletFiles + "terminate.go":                         "TerminationGracePeriodSeconds",
		kubeletFiles + "internal/lifecycle/plan.go":           "ActiveDeadlineSeconds",
		kubeletFiles + "internal/podconfig/services.go":       "EnableServiceLinks",
		kubeletFiles + "internal/qos/qos.go":                  "Resources",
		"../../internal/usage/podsum.go":                      "Overhead",
		kubeletFiles + "internal/podconfig/dns.go":            "DNSPolicy DNSConfig",
		kubeletFiles + "internal/tokens/tokens.go":            "ServiceAccountName",
		kubeletFiles + "internal/podconfig/sandbox.go":        "HostNetwork HostPID HostIPC HostUsers ShareProcessNamespace SecurityContext Hostname Subdomain SetHostnameAsFQDN HostnameOverride",
		kubeletFiles + "images.go":                            "ImagePullSecrets",
		kubeletFiles + "sync.go":                              "RuntimeClassName",
		kubeletFiles + "internal/podconfig/hosts.go":          "HostAliases",
		kubeletFiles + "internal/lifecycle/conditions.go":     "ReadinessGates",
		pluginFiles + "serviceaccount/volume.go":              "AutomountServiceAccountToken",
		pluginFiles + "priority/priority.go":                  "PreemptionPolicy PriorityClassName",
		schedulerFiles + "internal/nodematch/nodematch.go":    "NodeSelector Affinity",
		schedulerFiles + "internal/spread/spread.go":          "TopologySpreadConstraints",
		schedulerFiles + "loop.go":                            "NodeName SchedulerName SchedulingGates",
		controllersFiles + "node/tainteviction.go":            "Tolerations",
		schedulerFiles + "queue.go":                           "Priority",
		serverFiles + "internal/podspec/defaults.go":          "DeprecatedServiceAccount", // another name of ServiceAccountName
		serverFiles + "core/pod.go":                           "EphemeralContainers",
	}},
	{corev1.Container{}, map[string]string{
		kubeletFiles + "internal/lifecycle/restart.go":   "RestartPolicy RestartPolicyRules",
		kubeletFiles + "internal/podconfig/container.go": "Name Image Command Args WorkingDir Resources Stdin StdinOnce TTY",
		kubeletFiles + "internal/podconfig/mounts.go":    "VolumeMounts",
		kubeletFiles + "internal/podconfig/sandbox.go":   "Ports SecurityContext",
		kubeletFiles + "internal/podconfig/env.go":       "Env EnvFrom",
		kubeletFiles + "images.go":                       "ImagePullPolicy",
		kubeletFiles + "internal/resize/step.go":         "ResizePolicy",
		kubeletFiles + "internal/podconfig/labels.go":    "TerminationMessagePath TerminationMessagePolicy",
		kubeletFiles + "probe/set.go":                    "StartupProbe LivenessProbe ReadinessProbe",
		kubeletFiles + "hooks.go":                        "Lifecycle",
	}},
	{corev1.PodSecurityContext{}, map[string]string{
		kubeletFiles + "internal/podconfig/security.go": "RunAsUser RunAsGroup RunAsNonRoot SeccompProfile",
		kubeletFiles + "internal/podconfig/rights.go":   "SupplementalGroupsPolicy AppArmorProfile",
		kubeletFiles + "internal/podconfig/sandbox.go":  "SupplementalGroups FSGroup Sysctls SELinuxOptions",
		kubeletFiles + "volumes/group.go":               "FSGroupChangePolicy",
	}},
	{corev1.SecurityContext{}, map[string]string{
		kubeletFiles + "internal/podconfig/security.go": "Capabilities Privileged RunAsUser RunAsGroup RunAsNonRoot ReadOnlyRootFilesystem AllowPrivilegeEscalation ProcMount SeccompProfile SELinuxOptions",
		kubeletFiles + "internal/podconfig/rights.go":   "AppArmorProfile",
	}},
	{corev1.Lifecycle{}, map[string]string{kubeletFiles + "hooks.go": "PostStart PreStop"}},
	{corev1.VolumeMount{}, map[string]string{kubeletFiles + "internal/podconfig/mounts.go": "Name ReadOnly MountPath MountPropagation SubPath SubPathExpr",
		kubeletFiles + "internal/lifecycle/recursive.go": "RecursiveReadOnly",
	}},
	{corev1.ContainerPort{}, map[string]string{
		controllersFiles + "endpoints/pods.go":         "Name",
		kubeletFiles + "internal/podconfig/sandbox.go": "ContainerPort Protocol HostIP",
	}},
	{corev1.EnvVarSource{}, map[string]string{kubeletFiles + "internal/podconfig/env.go": "FieldRef ResourceFieldRef ConfigMapKeyRef SecretKeyRef FileKeyRef"}},
	{corev1.EnvFromSource{}, map[string]string{kubeletFiles + "internal/podconfig/env.go": "Prefix ConfigMapRef SecretRef"}},
	{corev1.ResourceRequirements{}, map[string]string{kubeletFiles + "internal/podconfig/container.go": "Limits Requests"}},
	{corev1.EmptyDirVolumeSource{}, map[string]string{kubeletFiles + "volumes/emptydir.go": "Medium SizeLimit"}},
	{corev1.VolumeProjection{}, map[string]string{
		kubeletFiles + "volumes/configmap.go":           "ConfigMap",
		kubeletFiles + "volumes/secret.go":              "Secret",
		kubeletFiles + "volumes/downwardapi.go":         "DownwardAPI",
		kubeletFiles + "volumes/serviceaccounttoken.go": "ServiceAccountToken",
		kubeletFiles + "volumes/clustertrustbundle.go":  "ClusterTrustBundle",
	}},
	{corev1.Affinity{}, map[string]string{
		schedulerFiles + "internal/nodematch/nodematch.go": "NodeAffinity",
		schedulerFiles + "affinity.go":                     "PodAffinity PodAntiAffinity",
	}},
	{corev1.NodeAffinity{}, map[string]string{
		schedulerFiles + "internal/nodematch/nodematch.go": "RequiredDuringSchedulingIgnoredDuringExecution",
		schedulerFiles + "priorities/priorities.go":        "PreferredDuringSchedulingIgnoredDuringExecution",
	}},
	{corev1.PodAffinity{}, map[string]string{schedulerFiles + "affinity.go": "RequiredDuringSchedulingIgnoredDuringExecution PreferredDuringSchedulingIgnoredDuringExecution"}},
	{corev1.PodAntiAffinity{}, map[string]string{schedulerFiles + "affinity.go": "RequiredDuringSchedulingIgnoredDuringExecution PreferredDuringSchedulingIgnoredDuringExecution"}},
	{corev1.PodAffinityTerm{}, map[string]string{
		schedulerFiles + "affinity.go":                     "LabelSelector Namespaces TopologyKey NamespaceSelector",
		serverFiles + "internal/podspec/matchlabelkeys.go": "MatchLabelKeys MismatchLabelKeys",
	}},
	{corev1.TopologySpreadConstraint{}, map[string]string{
		schedulerFiles + "internal/spread/spread.go": "MaxSkew TopologyKey WhenUnsatisfiable LabelSelector MinDomains NodeAffinityPolicy NodeTaintsPolicy MatchLabelKeys",
	}},
	{corev1.Toleration{}, map[string]string{
		schedulerFiles + "internal/nodematch/taints.go": "Key Operator Value Effect",
		controllersFiles + "node/tainteviction.go":      "TolerationSeconds",
	}},
	{corev1.Taint{}, map[string]string{
		schedulerFiles + "internal/nodematch/taints.go": "Key Value Effect",
		controllersFiles + "node/tainteviction.go":      "TimeAdded",
	}},
	{corev1.ServiceSpec{}, map[string]string{
		controllersFiles + "endpoints/pods.go":          "Ports Selector ClusterIP",
		controllersFiles + "endpoints/sliceendpoint.go": "PublishNotReadyAddresses IPFamilies TrafficDistribution",
		serverFiles + "internal/service/address.go":     "ClusterIPs IPFamilyPolicy",
		serverFiles + "internal/service/allocation.go":  "AllocateLoadBalancerNodePorts",
		serverFiles + "internal/service/service.go":     "SessionAffinityConfig LoadBalancerClass", // nothing without sessionAffinity and the type
	}},
	{corev1.ServicePort{}, map[string]string{
		controllersFiles + "endpoints/pods.go":          "Name Protocol TargetPort",
		controllersFiles + "endpoints/sliceendpoint.go": "AppProtocol",
		serverFiles + "internal/service/service.go":     "Port",
	}},
	{appsv1.DeploymentSpec{}, map[string]string{
		controllersFiles + "deployment/deployment.go": "Replicas Selector Template",
		controllersFiles + "deployment/plan.go":       "Strategy RevisionHistoryLimit Paused",
		controllersFiles + "deployment/set.go":        "MinReadySeconds",
		controllersFiles + "deployment/status.go":     "ProgressDeadlineSeconds",
	}},
	{appsv1.ReplicaSetSpec{}, map[string]string{controllersFiles + "replicaset/replicaset.go": "Replicas MinReadySeconds Selector Template"}},
	{batchv1.JobSpec{}, map[string]string{
		controllersFiles + "job/plan.go": "Parallelism Completions ActiveDeadlineSeconds PodFailurePolicy SuccessPolicy BackoffLimit " +
			"BackoffLimitPerIndex MaxFailedIndexes Suspend",
		controllersFiles + "job/pods.go":             "ManualSelector Template",
		controllersFiles + "job/claim.go":            "Selector",
		controllersFiles + "job/ttlafterfinished.go": "TTLSecondsAfterFinished",
		controllersFiles + "job/tally.go":            "CompletionMode PodReplacementPolicy",
		controllersFiles + "job/job.go":              "ManagedBy",
	}},
}

// TestEveryField: of each field of the types above, a row of the table says that nothing acts
// on it, or a file is known that reads it. A field that a new k8s.io/api brings is neither.
func TestEveryField(t *testing.T) {
	named := namedFields(t)
	for _, known := range actedOn {
		typ := reflect.TypeOf(known.of)
		readers := map[string]string{}
		for file, fields := range known.fields {
			for name := range strings.FieldsSeq(fields) {
				readers[name] = file
			}
		}
		for i := range typ.NumField() {
			name := typ.Field(i).Name
			file, acted := readers[name]
			delete(readers, name)
			if !acted && !named[typ.Name()+"."+name] {
				t.Errorf("%s.%s: no row of the table names it, and no file is known that acts on it", typ.Name(), name)
			}
			if acted && !reads(t, file, name) {
				t.Errorf("%s.%s: %s does not read it", typ.Name(), name, file)
			}
		}
		for name := range readers {
			t.Errorf("%s has no field %s", typ.Name(), name)
		}
	}
}

// namedFields are the fields on the paths of rows, such as "PodSpec.OS" and "PodOS.Name".
func namedFields(t *testing.T) map[string]bool {
	all, err := compileAll(Table())
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, rows := range all {
		for _, row := range rows {
			typ := row.kind
			for _, s := range row.steps {
				field := typ.FieldByIndex(s.index)
				named[typ.Name()+"."+field.Name] = true
				for typ = field.Type; typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice; {
					typ = typ.Elem()
				}
			}
		}
	}
	return named
}

// reads reports whether a file of Go has a selector with the name of a field.
func reads(t *testing.T, file, name string) bool {
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`\.` + name + `\b`).Match(source)
}

// unread are the fields that nothing but the API server's checks reads. When a part starts to
// act on one, its row goes.
var unread = map[string]string{
	"PodCertificate": "kubelet",
}

// TestStaleRows: the table shrinks as things are built. A row about a field that its part has
// begun to read is to be removed, or to say what is still missing.
func TestStaleRows(t *testing.T) {
	named := namedFields(t)
	for name, part := range unread {
		row := false
		for field := range named {
			row = row || strings.HasSuffix(field, "."+name)
		}
		if !row {
			t.Errorf("%s: no row names it any more: remove it here", name)
		}
		err := eachSource("../../"+part, func(file string) {
			if reads(t, file, name) {
				t.Errorf("%s reads %s: remove its row from the table, or say what is missing still", file, name)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
