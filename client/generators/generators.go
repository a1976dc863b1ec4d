// Package generators makes objects from the flags of kubectl run and kubectl autoscale.
//
//	object, err := generators.Run(generators.RunOptions{Name: "nginx", Image: "nginx", Replicas: 3})
//
// The restart policy chooses the kind: Always a Deployment, OnFailure a Job, Never a Pod. (kubectl
// made all three until v1.18, and only pods since.) Objects are labelled run=NAME unless labels are
// given.
//
// The functions are pure: they use only their arguments. Errors have the texts of kubectl.
package generators

import (
	"fmt"
	"maps"
	"regexp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/planekit/planekit/client"
)

// RunOptions holds the flags of kubectl run.
type RunOptions struct {
	// Name is the name of the object and of its container. Required.
	Name string
	// Namespace may be empty; the client then fills it in.
	Namespace string
	// Image is the image of the container. Required.
	Image string
	// Replicas is the number of pods of a Deployment; zero makes one without pods. Other kinds
	// accept only 1.
	Replicas int32
	// Restart is Always, OnFailure or Never; empty means Always.
	Restart corev1.RestartPolicy
	// Port is the port that the container exposes; zero means none.
	Port int32
	// Env holds variables as NAME=VALUE.
	Env []string
	// Labels holds labels as key=value, separated by commas; empty means run=NAME.
	Labels string
	// Command replaces the image's entry point, Args its arguments.
	Command, Args []string
}

// message is an error with the exact text of kubectl, upper case included.
type message string

func (m message) Error() string { return string(m) }

// Run makes a Deployment, a Job or a Pod.
func Run(o RunOptions) (client.Object, error) {
	if o.Restart == "" {
		o.Restart = corev1.RestartPolicyAlways
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	labels, err := parseLabels(o.Labels, o.Name)
	if err != nil {
		return nil, err
	}
	env, err := parseEnv(o.Env)
	if err != nil {
		return nil, err
	}
	meta := metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, Labels: labels}
	spec := o.podSpec(env)
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)}, Spec: spec}
	switch o.Restart {
	case corev1.RestartPolicyNever:
		return &corev1.Pod{TypeMeta: kind("v1", "Pod"), ObjectMeta: meta, Spec: spec}, nil
	case corev1.RestartPolicyOnFailure:
		return &batchv1.Job{TypeMeta: kind("batch/v1", "Job"), ObjectMeta: meta, Spec: batchv1.JobSpec{Template: template}}, nil
	}
	return &appsv1.Deployment{TypeMeta: kind("apps/v1", "Deployment"), ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Replicas: &o.Replicas,
		Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(labels)},
		Template: template,
	}}, nil
}

// Service makes the Service that leads to the pods of Run, under the same name and on the same port.
func Service(o RunOptions) (*corev1.Service, error) {
	if o.Port == 0 {
		return nil, message("--port must be set when exposing a service")
	}
	labels, err := parseLabels(o.Labels, o.Name)
	if err != nil {
		return nil, err
	}
	return &corev1.Service{
		TypeMeta:   kind("v1", "Service"),
		ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace},
		Spec: corev1.ServiceSpec{
			Selector: labels,
			Ports:    []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: o.Port, TargetPort: intstr.FromInt32(o.Port)}},
		},
	}, nil
}

func kind(version, kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: kind}
}

func (o *RunOptions) validate() error {
	switch {
	case o.Name == "":
		return message("NAME is required for run")
	case o.Image == "":
		return message("--image is required")
	case !imageName.MatchString(o.Image):
		return message(fmt.Sprintf("Invalid image name %q: invalid reference format", o.Image))
	case o.Replicas < 0:
		return message("--replicas must be greater than or equal to 0")
	case o.Port < 0 || o.Port > 65535:
		return message(fmt.Sprintf("invalid port: %d", o.Port))
	}
	switch o.Restart {
	case corev1.RestartPolicyAlways:
	case corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever:
		if o.Replicas != 1 {
			return message(fmt.Sprintf("--restart=%s requires that --replicas=1, found %d", o.Restart, o.Replicas))
		}
	default:
		return message(fmt.Sprintf("invalid restart policy: %s", o.Restart))
	}
	return nil
}

func (o *RunOptions) podSpec(env []corev1.EnvVar) corev1.PodSpec {
	c := corev1.Container{Name: o.Name, Image: o.Image, Env: env, Command: o.Command, Args: o.Args}
	if o.Port > 0 {
		c.Ports = []corev1.ContainerPort{{ContainerPort: o.Port}}
	}
	return corev1.PodSpec{Containers: []corev1.Container{c}, RestartPolicy: o.Restart}
}

func parseLabels(spec, name string) (map[string]string, error) {
	if spec == "" {
		return map[string]string{"run": name}, nil
	}
	labels := map[string]string{}
	for pair := range strings.SplitSeq(spec, ",") {
		key, value, ok := strings.Cut(pair, "=")
		switch {
		case !ok || strings.Contains(value, "="):
			return nil, message("unexpected label spec: " + pair)
		case key == "":
			return nil, message("unexpected empty label key")
		}
		labels[key] = value
	}
	return labels, nil
}

func parseEnv(list []string) ([]corev1.EnvVar, error) {
	var env []corev1.EnvVar
	for _, pair := range list {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || len(validation.IsEnvVarName(name)) > 0 {
			return nil, message("invalid env: " + pair)
		}
		env = append(env, corev1.EnvVar{Name: name, Value: value})
	}
	return env, nil
}

// imageName is the grammar of image references
// (https://pkg.go.dev/github.com/distribution/reference#pkg-overview).
var imageName = regexp.MustCompile(`^` +
	`(?:` + host + `(?:\.` + host + `)*(?::[0-9]+)?/|\[[0-9a-fA-F:]+\](?::[0-9]+)?/)?` +
	component + `(?:/` + component + `)*` +
	`(?::[\w][\w.-]{0,127})?` +
	`(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,})?$`)

const (
	host      = `(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])`
	component = `[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*`
)
