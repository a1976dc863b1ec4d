package kube

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkContainers(ps *problems, p *field.Path, scope *podScope) {
	if len(scope.spec.Containers) == 0 {
		ps.add(field.Required(p, ""))
		return
	}
	names, ports := map[string]bool{}, map[hostPort]bool{}
	for i := range scope.spec.Containers {
		c, at := &scope.spec.Containers[i], p.Index(i)
		checkContainer(ps, at, c, scope)
		ps.unique(!names[c.Name], at.Child("name"), c.Name)
		names[c.Name] = true
		checkHandlers(ps, at, c, scope)
		checkRestartPolicy(ps, at, c)
		checkHostPorts(ps, at.Child("ports"), c.Ports, ports)
	}
}

// checkInitContainers allows what only long-running containers can use (probes,
// hooks) to sidecars alone.
func checkInitContainers(ps *problems, p *field.Path, scope *podScope) {
	names := map[string]bool{}
	for i := range scope.spec.Containers {
		names[scope.spec.Containers[i].Name] = true
	}
	for i := range scope.spec.InitContainers {
		c, at := &scope.spec.InitContainers[i], p.Index(i)
		checkContainer(ps, at, c, scope)
		checkRestartPolicy(ps, at, c)
		if c.Name != "" {
			ps.unique(!names[c.Name], at.Child("name"), c.Name)
			names[c.Name] = true
		}
		// Init containers run one after another and may share host ports.
		checkHostPorts(ps, at.Child("ports"), c.Ports, map[hostPort]bool{})
		if isSidecar(c) {
			checkHandlers(ps, at, c, scope)
			continue
		}
		for _, f := range []struct {
			path string
			set  bool
		}{
			{"lifecycle", c.Lifecycle != nil},
			{"livenessProbe", c.LivenessProbe != nil},
			{"readinessProbe", c.ReadinessProbe != nil},
			{"startupProbe", c.StartupProbe != nil},
		} {
			ps.allowed(!f.set, at.Child(f.path), "may not be set for init containers without restartPolicy=Always")
		}
	}
}

func checkEphemeralContainers(ps *problems, p *field.Path, scope *podScope) {
	names := map[string]bool{}
	for _, list := range [][]corev1.Container{scope.spec.Containers, scope.spec.InitContainers} {
		for i := range list {
			names[list[i].Name] = true
		}
	}
	targets := map[string]bool{}
	for name := range names {
		targets[name] = true
	}
	for i := range scope.spec.EphemeralContainers {
		ec, at := &scope.spec.EphemeralContainers[i], p.Index(i)
		c := (*corev1.Container)(&ec.EphemeralContainerCommon)
		checkContainer(ps, at, c, scope)
		ps.unique(!names[c.Name], at.Child("name"), c.Name)
		names[c.Name] = true
		if ec.TargetContainerName != "" && !targets[ec.TargetContainerName] {
			ps.add(field.NotFound(at.Child("targetContainerName"), ec.TargetContainerName))
		}
		checkEphemeralFields(ps, at, c)
	}
}

// checkEphemeralFields refuses what a container without guarantees cannot have.
func checkEphemeralFields(ps *problems, at *field.Path, c *corev1.Container) {
	for _, f := range []struct {
		path string
		set  bool
	}{
		{"ports", len(c.Ports) > 0},
		{"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil},
		{"lifecycle", c.Lifecycle != nil},
		{"resources", len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0},
		{"resizePolicy", len(c.ResizePolicy) > 0},
	} {
		ps.allowed(!f.set, at.Child(f.path), "cannot be set for an Ephemeral Container")
	}
	for i, m := range c.VolumeMounts {
		mount := at.Child("volumeMounts").Index(i)
		ps.allowed(m.SubPath == "", mount.Child("subPath"), "cannot be set for an Ephemeral Container")
		ps.allowed(m.SubPathExpr == "", mount.Child("subPathExpr"), "cannot be set for an Ephemeral Container")
	}
}

// checkContainer checks what all kinds of container have in common.
func checkContainer(ps *problems, p *field.Path, c *corev1.Container, scope *podScope) {
	if ps.required(p.Child("name"), c.Name) {
		ps.dnsLabel(p.Child("name"), c.Name)
	}
	ps.required(p.Child("image"), c.Image)
	someOf(ps, p.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	checkPorts(ps, p.Child("ports"), c.Ports)
	checkEnv(ps, p.Child("env"), c.Env, scope)
	checkEnvFrom(ps, p.Child("envFrom"), c.EnvFrom)
	checkMounts(ps, p.Child("volumeMounts"), c, scope)
	checkDevices(ps, p.Child("volumeDevices"), c, scope)
	someOf(ps, p.Child("imagePullPolicy"), c.ImagePullPolicy,
		corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	checkRequirements(ps, p.Child("resources"), &c.Resources, containerResource)
	checkClaims(ps, p.Child("resources", "claims"), c.Resources.Claims, scope.claims)
	checkSecurity(ps, p.Child("securityContext"), c.SecurityContext, scope.spec)
}

// Limits of the rules by which a container restarts
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#individual-container-restart-policy-and-rules).
const (
	maxRestartRules     = 20
	maxRestartExitCodes = 255
)

func checkRestartPolicy(ps *problems, p *field.Path, c *corev1.Container) {
	if c.RestartPolicy != nil {
		oneOf(ps, p.Child("restartPolicy"), *c.RestartPolicy,
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	}
	rules := p.Child("restartPolicyRules")
	ps.present(c.RestartPolicy != nil || len(c.RestartPolicyRules) == 0,
		p.Child("restartPolicy"), "must specify restartPolicy when restart rules are used")
	ps.atMost(rules, len(c.RestartPolicyRules), maxRestartRules)
	for i, r := range c.RestartPolicyRules {
		at := rules.Index(i)
		oneOf(ps, at.Child("action"), r.Action,
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		codes := at.Child("exitCodes")
		if r.ExitCodes == nil {
			ps.add(field.Required(codes, "must be specified"))
			continue
		}
		oneOf(ps, codes.Child("operator"), r.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		n := len(r.ExitCodes.Values)
		ps.atMost(codes.Child("values"), n, maxRestartExitCodes)
	}
}

var protocols = []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}

func checkPorts(ps *problems, p *field.Path, ports []corev1.ContainerPort) {
	names := map[string]bool{}
	for i, port := range ports {
		at := p.Index(i)
		if port.Name != "" {
			ps.each(at.Child("name"), port.Name, validation.IsValidPortName(port.Name))
			ps.unique(!names[port.Name], at.Child("name"), port.Name)
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			ps.add(field.Required(at.Child("containerPort"), ""))
		} else {
			ps.each(at.Child("containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort)))
		}
		if port.HostPort != 0 {
			ps.each(at.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort)))
		}
		someOf(ps, at.Child("protocol"), port.Protocol, protocols...)
	}
}

// hostPort is what a pod takes from its node.
type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

func checkHostPorts(ps *problems, p *field.Path, ports []corev1.ContainerPort, taken map[hostPort]bool) {
	for i, port := range ports {
		if port.HostPort == 0 {
			continue
		}
		key := hostPort{port.Protocol, port.HostIP, port.HostPort}
		ps.unique(!taken[key], p.Index(i).Child("hostPort"),
			fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort))
		taken[key] = true
	}
}

// checkPodClaims checks the claims a pod makes on devices and returns their names.
func checkPodClaims(ps *problems, p *field.Path, claims []corev1.PodResourceClaim) map[string]bool {
	names := map[string]bool{}
	for i, c := range claims {
		at := p.Index(i)
		if ps.required(at.Child("name"), c.Name) {
			ps.unique(!names[c.Name], at.Child("name"), c.Name)
			ps.dnsLabel(at.Child("name"), c.Name)
			names[c.Name] = true
		}
		switch name, template := c.ResourceClaimName, c.ResourceClaimTemplateName; {
		case name != nil && template != nil:
			ps.add(field.Invalid(at, c, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case name == nil && template == nil:
			ps.add(field.Invalid(at, c, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		case name != nil:
			ps.subdomain(at.Child("resourceClaimName"), *name)
		default:
			ps.subdomain(at.Child("resourceClaimTemplateName"), *template)
		}
	}
	return names
}

// checkClaims checks the claims that a container uses.
func checkClaims(ps *problems, p *field.Path, claims []corev1.ResourceClaim, known map[string]bool) {
	for i, c := range claims {
		if !ps.required(p.Index(i), c.Name) {
			continue
		}
		ps.unique(!slices.Contains(claims[:i], c), p.Index(i), c.Name)
		if !known[c.Name] {
			unknown := field.NotFound(p.Index(i), c.Name)
			unknown.Detail = "must be one of the names in pod.spec.resourceClaims"
			if len(known) == 0 {
				unknown.Detail += " which is empty"
			} else {
				unknown.Detail += ": " + strings.Join(sortedKeys(known), ", ")
			}
			ps.add(unknown)
		}
	}
}
