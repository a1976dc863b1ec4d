package cni

import (
	"fmt"
	"strings"
)

// Args are the key-value pairs of CNI_ARGS, in order.
type Args []Arg

// Arg is one pair.
type Arg struct{ Key, Value string }

// PodArgs returns the arguments in which Kubernetes runtimes pass a container's pod to plugins.
func PodArgs(namespace, name, infraContainer, uid string) Args {
	return Args{
		{"IgnoreUnknown", "1"},
		{"K8S_POD_NAMESPACE", namespace},
		{"K8S_POD_NAME", name},
		{"K8S_POD_INFRA_CONTAINER_ID", infraContainer},
		{"K8S_POD_UID", uid},
	}
}

// ParseArgs reads CNI_ARGS, such as "IgnoreUnknown=1;K8S_POD_NAME=web".
func ParseArgs(s string) (Args, error) {
	var args Args
	for pair := range strings.SplitSeq(s, ";") {
		if pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, Errorf(CodeInvalidEnvironment, "CNI_ARGS: %q is not a pair", pair)
		}
		args = append(args, Arg{key, value})
	}
	return args, args.check()
}

// Get returns the last value of key.
func (a Args) Get(key string) string {
	value := ""
	for _, arg := range a {
		if arg.Key == key {
			value = arg.Value
		}
	}
	return value
}

// String returns the arguments in the form of CNI_ARGS.
func (a Args) String() string {
	var b strings.Builder
	for n, arg := range a {
		if n > 0 {
			b.WriteByte(';')
		}
		b.WriteString(arg.Key + "=" + arg.Value)
	}
	return b.String()
}

// check refuses pairs that would be parsed differently, because pod names come from users.
func (a Args) check() error {
	for _, arg := range a {
		if arg.Key == "" || strings.ContainsAny(arg.Key, "=;\x00") || strings.ContainsAny(arg.Value, ";\x00") {
			return fmt.Errorf("argument %q=%q: %w", arg.Key, arg.Value, Errorf(CodeInvalidEnvironment, "separator in a pair"))
		}
	}
	return nil
}
