package podspec

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func checkContainers(ps *check.Problems, p *field.Path, scope *scope) {
	if len(scope.spec.Containers) == 0 {
		ps.Add(field.Required(p, ""))
		return
	}
	names, ports := map[string]bool{}, map[hostPort]bool{}
	for i := range scope.spec.Containers {
		c, at := &scope.spec.Containers[i], p.Index(i)
		checkContainer(ps, at, c, scope)
		ps.Unique(!names[c.Name], at.Child("name"), c.Name)
		names[c.Name] = true
		checkHandlers(ps, at, c, scope)
		checkRestartPolicy(ps, at, c)
		checkHostPorts(ps, at.Child("ports"), c.Ports, ports)
	}
}

// checkInitContainers allows what only long-running containers can use (probes,
// hooks) to sidecars alone.
func checkInitContainers(ps *check.Problems, p *field.Path, scope *scope) {
	names := map[string]bool{}
	for i := range scope.spec.Containers {
		names[scope.spec.Containers[i].Name] = true
	}
	for i := range scope.spec.InitContainers {
		c, at := &scope.spec.InitContainers[i], p.Index(i)
		checkContainer(ps, at, c, scope)
		if c.RestartPolicy != nil {
			checkRestartPolicy(ps, at, c)
		} else {
			ps.Present(len(c.RestartPolicyRules) == 0, at.Child("restartPolicy"), "must specify restartPolicy when restart rules are used")
		}
		if c.Name != "" {
			ps.Unique(!names[c.Name], at.Child("name"), c.Name)
			names[c.Name] = true
		}
		// Init containers run one after another and may share host ports.
		checkHostPorts(ps, at.Child("ports"), c.Ports, map[hostPort]bool{})
		if IsSidecar(c) {
			checkHandlers(ps, at, c, scope)
			continue
		}
		for j, policy := range c.ResizePolicy {
			if policy.RestartPolicy == corev1.RestartContainer {
				ps.Add(field.Invalid(at.Child("resizePolicy").Index(j).Child("restartPolicy"), policy.RestartPolicy,
					"must not be set to 'RestartContainer' for non-sidecar initContainers"))
			}
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
			ps.Allowed(!f.set, at.Child(f.path), "may not be set for init containers without restartPolicy=Always")
		}
	}
}

func checkEphemeralContainers(ps *check.Problems, p *field.Path, scope *scope) {
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
		ps.Unique(!names[c.Name], at.Child("name"), c.Name)
		names[c.Name] = true
		if ec.TargetContainerName != "" && !targets[ec.TargetContainerName] {
			ps.Add(field.NotFound(at.Child("targetContainerName"), ec.TargetContainerName))
		}
		checkEphemeralFields(ps, at, c)
	}
}

// checkEphemeralFields refuses what a container without guarantees cannot have.
func checkEphemeralFields(ps *check.Problems, at *field.Path, c *corev1.Container) {
	for _, f := range []struct {
		path string
		set  bool
	}{
		{"ports", c.Ports != nil}, // an empty list too, as upstream
		{"resources", c.Resources.Limits != nil || c.Resources.Requests != nil || c.Resources.Claims != nil},
		{"resizePolicy", c.ResizePolicy != nil},
		{"restartPolicy", c.RestartPolicy != nil},
		{"restartPolicyRules", c.RestartPolicyRules != nil},
		{"livenessProbe", c.LivenessProbe != nil},
		{"readinessProbe", c.ReadinessProbe != nil},
		{"startupProbe", c.StartupProbe != nil},
		{"lifecycle", c.Lifecycle != nil},
	} {
		ps.Allowed(!f.set, at.Child(f.path), "cannot be set for an Ephemeral Container")
	}
	for i, m := range c.VolumeMounts {
		mount := at.Child("volumeMounts").Index(i)
		ps.Allowed(m.SubPath == "", mount.Child("subPath"), "cannot be set for an Ephemeral Container")
		ps.Allowed(m.SubPathExpr == "", mount.Child("subPathExpr"), "cannot be set for an Ephemeral Container")
	}
}

// checkContainer checks what all kinds of container have in common.
func checkContainer(ps *check.Problems, p *field.Path, c *corev1.Container, scope *scope) {
	if ps.Required(p.Child("name"), c.Name) {
		ps.DNSLabel(p.Child("name"), c.Name)
	}
	ps.Required(p.Child("image"), c.Image)
	check.RequiredOneOf(ps, p.Child("terminationMessagePolicy"), c.TerminationMessagePolicy,
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)
	checkPorts(ps, p.Child("ports"), c.Ports)
	checkEnv(ps, p.Child("env"), c.Env, scope)
	checkEnvFrom(ps, p.Child("envFrom"), c.EnvFrom)
	checkMounts(ps, p.Child("volumeMounts"), c, scope)
	checkDevices(ps, p.Child("volumeDevices"), c, scope)
	check.RequiredOneOf(ps, p.Child("imagePullPolicy"), c.ImagePullPolicy,
		corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)
	checkResizePolicy(ps, p.Child("resizePolicy"), c.ResizePolicy, scope.spec.RestartPolicy)
	CheckRequirements(ps, p.Child("resources"), &c.Resources, ContainerResource)
	checkClaims(ps, p.Child("resources", "claims"), c.Resources.Claims, scope.claims)
	checkSecurity(ps, p.Child("securityContext"), c.SecurityContext, scope.spec)
}

// Limits of the rules by which a container restarts
// (https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#individual-container-restart-policy-and-rules).
const (
	maxRestartRules     = 20
	maxRestartExitCodes = 255
)

func checkRestartPolicy(ps *check.Problems, p *field.Path, c *corev1.Container) {
	if c.RestartPolicy != nil {
		check.OneOf(ps, p.Child("restartPolicy"), *c.RestartPolicy,
			corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever, corev1.ContainerRestartPolicyOnFailure)
	}
	rules := p.Child("restartPolicyRules")
	ps.Present(c.RestartPolicy != nil || len(c.RestartPolicyRules) == 0,
		p.Child("restartPolicy"), "must specify restartPolicy when restart rules are used")
	ps.AtMost(rules, len(c.RestartPolicyRules), maxRestartRules)
	for i, r := range c.RestartPolicyRules {
		at := rules.Index(i)
		check.OneOf(ps, at.Child("action"), r.Action,
			corev1.ContainerRestartRuleActionRestart, corev1.ContainerRestartRuleActionRestartAllContainers)
		codes := at.Child("exitCodes")
		if r.ExitCodes == nil {
			ps.Add(field.Required(codes, "must be specified"))
			continue
		}
		check.OneOf(ps, codes.Child("operator"), r.ExitCodes.Operator,
			corev1.ContainerRestartRuleOnExitCodesOpIn, corev1.ContainerRestartRuleOnExitCodesOpNotIn)
		n := len(r.ExitCodes.Values)
		ps.AtMost(codes.Child("values"), n, maxRestartExitCodes)
	}
}

var Protocols = []corev1.Protocol{corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP}

func checkPorts(ps *check.Problems, p *field.Path, ports []corev1.ContainerPort) {
	names := map[string]bool{}
	for i, port := range ports {
		at := p.Index(i)
		if port.Name != "" {
			ps.Each(at.Child("name"), port.Name, validation.IsValidPortName(port.Name))
			ps.Unique(!names[port.Name], at.Child("name"), port.Name)
			names[port.Name] = true
		}
		if port.ContainerPort == 0 {
			ps.Add(field.Required(at.Child("containerPort"), ""))
		} else {
			ps.Each(at.Child("containerPort"), port.ContainerPort, validation.IsValidPortNum(int(port.ContainerPort)))
		}
		if port.HostPort != 0 {
			ps.Each(at.Child("hostPort"), port.HostPort, validation.IsValidPortNum(int(port.HostPort)))
		}
		check.RequiredOneOf(ps, at.Child("protocol"), port.Protocol, Protocols...)
	}
}

// A hostPort identifies a port of the node, which one pod at a time can have.
type hostPort struct {
	protocol corev1.Protocol
	ip       string
	port     int32
}

func checkHostPorts(ps *check.Problems, p *field.Path, ports []corev1.ContainerPort, taken map[hostPort]bool) {
	for i, port := range ports {
		if port.HostPort == 0 {
			continue
		}
		key := hostPort{port.Protocol, port.HostIP, port.HostPort}
		ps.Unique(!taken[key], p.Index(i).Child("hostPort"),
			fmt.Sprintf("%s/%s/%d", port.Protocol, port.HostIP, port.HostPort))
		taken[key] = true
	}
}

// checkPodClaims checks the claims a pod makes on devices and returns their names.
func checkPodClaims(ps *check.Problems, p *field.Path, claims []corev1.PodResourceClaim) map[string]bool {
	names := map[string]bool{}
	for i, c := range claims {
		at := p.Index(i)
		if ps.Required(at.Child("name"), c.Name) {
			ps.Unique(!names[c.Name], at.Child("name"), c.Name)
			ps.DNSLabel(at.Child("name"), c.Name)
			names[c.Name] = true
		}
		switch name, template := c.ResourceClaimName, c.ResourceClaimTemplateName; {
		case name != nil && template != nil:
			ps.Add(field.Invalid(at, c, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case name == nil && template == nil:
			ps.Add(field.Invalid(at, c, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		case name != nil:
			ps.Subdomain(at.Child("resourceClaimName"), *name)
		default:
			ps.Subdomain(at.Child("resourceClaimTemplateName"), *template)
		}
	}
	return names
}

// checkClaims checks the claims that a container uses.
func checkClaims(ps *check.Problems, p *field.Path, claims []corev1.ResourceClaim, known map[string]bool) {
	seen, parts := map[string]bool{}, map[string]int{}
	for i, c := range claims {
		key := c.Name
		switch {
		case !ps.Required(p.Index(i), c.Name):
			continue
		case seen[c.Name]: // all of its requests
			ps.Unique(false, p.Index(i), c.Name)
		case c.Request != "":
			key += "/" + c.Request
			ps.DNSLabel(p.Index(i).Child("request"), c.Request)
			ps.Unique(!seen[key], p.Index(i), key)
			parts[c.Name]++
		default:
			for range parts[c.Name] {
				ps.Unique(false, p.Index(i), c.Name)
			}
		}
		seen[key] = true
		if !known[c.Name] {
			unknown := field.NotFound(p.Index(i), c.Name)
			unknown.Detail = "must be one of the names in pod.spec.resourceClaims"
			if len(known) == 0 {
				unknown.Detail += " which is empty"
			} else {
				unknown.Detail += ": " + strings.Join(check.SortedKeys(known), ", ")
			}
			ps.Add(unknown)
		}
	}
}
