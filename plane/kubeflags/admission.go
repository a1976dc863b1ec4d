package kubeflags

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"

	"github.com/planekit/planekit/admission/initialresources"
	"github.com/planekit/planekit/admission/initialresources/usagering"
	"github.com/planekit/planekit/admission/plugins"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
)

// usageSpan is the age up to which usage counts for an estimate of InitialResources.
const usageSpan = 30 * 24 * time.Hour

// admission holds the flags of admission plugins.
type admission struct {
	enabled, disabled           []string
	configFile                  string
	notReadyFor, unreachableFor int64

	// The flags of InitialResources.
	percentile    int
	namespaceOnly bool
	interval      time.Duration
}

func (a *admission) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&a.enabled, "enable-admission-plugins", []string{"NodeRestriction"}, "plugins to run beside those that run by default")
	flags.StringSliceVar(&a.disabled, "disable-admission-plugins", nil, "plugins not to run")
	flags.StringVar(&a.configFile, "admission-control-config-file", "", "configuration of admission plugins: an AdmissionConfiguration of apiserver.config.k8s.io/v1")
	flags.Int64Var(&a.notReadyFor, "default-not-ready-toleration-seconds", 300, "how long pods without a toleration of their own stay on a node that is not ready")
	flags.Int64Var(&a.unreachableFor, "default-unreachable-toleration-seconds", 300, "how long pods without a toleration of their own stay on a node that cannot be reached")
	// Kubernetes had the first two while it had the plugin.
	flags.IntVar(&a.percentile, "ir-percentile", initialresources.DefaultPercentile, "percentile of past usage that InitialResources requests")
	flags.BoolVar(&a.namespaceOnly, "ir-namespace-only", false, "whether InitialResources considers only the usage in the pod's namespace")
	flags.DurationVar(&a.interval, "ir-sample-interval", time.Minute, "interval at which InitialResources reads the usage of containers from the nodes")
}

func (a *admission) check() error {
	if a.interval < time.Second {
		return errors.New("--ir-sample-interval must be at least a second")
	}
	return nil
}

func (a *admission) apply(config *plane.Config, _ *stack.Stack) error {
	configuration, err := readAdmissionConfig(a.configFile)
	if err != nil {
		return err
	}
	// The plugin exists only if it is enabled, and the reader only with it.
	var usage *usageReader
	estimator := plugins.Plugin{Name: initialresources.Name, New: func([]byte) (plugin any, err error) {
		plugin, usage, err = a.newInitialResources(config.Log.WithName("initialresources"))
		return plugin, err
	}}
	options := &config.Admission
	options.Enable, options.Disable, options.Configuration = a.enabled, a.disabled, configuration
	options.NotReady, options.Unreachable = &a.notReadyFor, &a.unreachableFor
	options.More = append(options.More, estimator)
	config.Parts = append(config.Parts, func(_ context.Context, p *plane.Plane, s *stack.Stack) error {
		if usage != nil {
			usage.plane = p
			s.Start("usage of containers", usage.run)
		}
		return nil
	})
	return nil
}

// newInitialResources returns the plugin that estimates resources from the usage that the nodes report
// while this process runs, and what reads that usage.
func (a *admission) newInitialResources(log logr.Logger) (any, *usageReader, error) {
	usage, err := usagering.New(usagering.Config{Span: usageSpan})
	if err != nil {
		return nil, nil, err
	}
	plugin, err := initialresources.New(initialresources.Config{
		Source: usage, Percentile: a.percentile, NamespaceOnly: a.namespaceOnly, Log: log,
	})
	return plugin, &usageReader{usage: usage, interval: a.interval, log: log}, err
}

func readAdmissionConfig(file string) (plugins.Configuration, error) {
	if file == "" {
		return plugins.Configuration{}, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return plugins.Configuration{}, fmt.Errorf("--admission-control-config-file: %w", err)
	}
	configuration, err := plugins.Parse(data, file, os.ReadFile)
	if err != nil {
		return plugins.Configuration{}, fmt.Errorf("--admission-control-config-file %s: %w", file, err)
	}
	return configuration, nil
}
