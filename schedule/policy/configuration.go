package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// configuration has the version and kind of a file for DecodeConfiguration.
var configuration = typeMeta{APIVersion: "kubescheduler.config.k8s.io/v1", Kind: "KubeSchedulerConfiguration"}

// schedulerConfiguration is a KubeSchedulerConfiguration.
type schedulerConfiguration struct {
	typeMeta                  `json:",inline"`
	Parallelism               *int32             `json:"parallelism"`
	LeaderElection            leaderElection     `json:"leaderElection"`
	ClientConnection          clientConnection   `json:"clientConnection"`
	EnableProfiling           *bool              `json:"enableProfiling"`
	EnableContentionProfiling *bool              `json:"enableContentionProfiling"`
	PercentageOfNodesToScore  *int32             `json:"percentageOfNodesToScore"`
	PodInitialBackoffSeconds  *int64             `json:"podInitialBackoffSeconds"`
	PodMaxBackoffSeconds      *int64             `json:"podMaxBackoffSeconds"`
	Profiles                  []schedulerProfile `json:"profiles"`
	Extenders                 []extender         `json:"extenders"`
	DelayCacheUntilActive     *bool              `json:"delayCacheUntilActive"`
}

type leaderElection struct {
	LeaderElect       *bool            `json:"leaderElect"`
	LeaseDuration     *metav1.Duration `json:"leaseDuration"`
	RenewDeadline     *metav1.Duration `json:"renewDeadline"`
	RetryPeriod       *metav1.Duration `json:"retryPeriod"`
	ResourceLock      *string          `json:"resourceLock"`
	ResourceName      *string          `json:"resourceName"`
	ResourceNamespace *string          `json:"resourceNamespace"`
}

type clientConnection struct {
	Kubeconfig         *string  `json:"kubeconfig"`
	AcceptContentTypes *string  `json:"acceptContentTypes"`
	ContentType        *string  `json:"contentType"`
	QPS                *float32 `json:"qps"`
	Burst              *int32   `json:"burst"`
}

type schedulerProfile struct {
	SchedulerName            *string        `json:"schedulerName"`
	PercentageOfNodesToScore *int32         `json:"percentageOfNodesToScore"`
	Plugins                  pluginSets     `json:"plugins"`
	PluginConfig             []pluginConfig `json:"pluginConfig"`
}

type pluginConfig struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// DecodeConfiguration reads a KubeSchedulerConfiguration of kubescheduler.config.k8s.io/v1, in YAML or JSON.
func DecodeConfiguration(data []byte) (*File, error) {
	text, err := open(data, configuration)
	if err != nil {
		return nil, err
	}
	var c schedulerConfiguration
	if err := decode(text, &c); err != nil {
		return nil, fmt.Errorf("strict decoding error: %w", err)
	}
	f := &File{}
	f.warnIdle(&c)
	var extenders []Extender
	for i := range c.Extenders {
		extenders = append(extenders, c.Extenders[i].plain())
	}
	ignored, errs := f.addExtenders(extenders)
	err = errors.Join(joined(c.LeaderElection.check()), joined(c.check()), joined(f.setBackoff(&c)), joined(errs), f.addProfiles(c.Profiles, ignored))
	if err != nil {
		return nil, err
	}
	return f, nil
}

// joined returns the errors of a list as one.
func joined(list field.ErrorList) error {
	var errs []error
	for _, err := range list {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// warn notes that a field has no effect.
func (f *File) warn(at *field.Path, why string) {
	f.warnings = append(f.warnings, fmt.Sprintf("%s has no effect: %s", at, why))
}

// warnIdle notes the fields that nothing acts on, unless they ask for nothing.
func (f *File) warnIdle(c *schedulerConfiguration) {
	const (
		election   = "there is no election of a leader here"
		connection = "the program connects the scheduler to the API server"
		profiles   = "the program serves its own profiles"
	)
	l, conn := &c.LeaderElection, &c.ClientConnection
	for _, row := range []struct {
		set  bool
		name string
		why  string
	}{
		{c.Parallelism != nil, "parallelism", "one goroutine makes all decisions"},
		{l.LeaderElect != nil && *l.LeaderElect, "leaderElection.leaderElect", election},
		{l.LeaseDuration != nil, "leaderElection.leaseDuration", election},
		{l.RenewDeadline != nil, "leaderElection.renewDeadline", election},
		{l.RetryPeriod != nil, "leaderElection.retryPeriod", election},
		{l.ResourceLock != nil, "leaderElection.resourceLock", election},
		{l.ResourceName != nil, "leaderElection.resourceName", election},
		{l.ResourceNamespace != nil, "leaderElection.resourceNamespace", election},
		{conn.Kubeconfig != nil, "clientConnection.kubeconfig", connection},
		{conn.AcceptContentTypes != nil, "clientConnection.acceptContentTypes", connection},
		{conn.ContentType != nil, "clientConnection.contentType", connection},
		{conn.QPS != nil, "clientConnection.qps", connection},
		{conn.Burst != nil, "clientConnection.burst", connection},
		{c.EnableProfiling != nil, "enableProfiling", profiles},
		{c.EnableContentionProfiling != nil, "enableContentionProfiling", profiles},
		{partial(c.PercentageOfNodesToScore), "percentageOfNodesToScore", allNodes},
		{c.DelayCacheUntilActive != nil && *c.DelayCacheUntilActive, "delayCacheUntilActive", election},
	} {
		if row.set {
			f.warn(field.NewPath(row.name), row.why)
		}
	}
}

const allNodes = "all nodes are scored"

// partial reports whether a percentage of nodes to score asks for less than all of them.
func partial(percentage *int32) bool { return percentage != nil && *percentage != 100 }

// check checks what is about the whole file.
func (c *schedulerConfiguration) check() (errs field.ErrorList) {
	if v := c.Parallelism; v != nil && *v <= 0 {
		errs = append(errs, field.Invalid(field.NewPath("parallelism"), *v, "should be an integer value greater than zero"))
	}
	if v := c.ClientConnection.Burst; v != nil && *v < 0 {
		errs = append(errs, field.Invalid(field.NewPath("clientConnection", "burst"), *v, "must be non-negative"))
	}
	return append(errs, checkPercentage(field.NewPath("percentageOfNodesToScore"), c.PercentageOfNodesToScore)...)
}

func checkPercentage(at *field.Path, percentage *int32) field.ErrorList {
	if percentage != nil && (*percentage < 0 || *percentage > 100) {
		return field.ErrorList{field.Invalid(at, *percentage, "not in valid range [0-100]")}
	}
	return nil
}

// check checks an election that is on, which is Kubernetes' default.
func (l *leaderElection) check() (errs field.ErrorList) {
	if l.LeaderElect != nil && !*l.LeaderElect {
		return nil
	}
	at := field.NewPath("leaderElection")
	duration := func(name string, set *metav1.Duration, standard time.Duration) time.Duration {
		if set == nil || set.Duration == 0 {
			return standard
		}
		if set.Duration < 0 {
			errs = append(errs, field.Invalid(at.Child(name), set.Duration.String(), "must be greater than zero"))
		}
		return set.Duration
	}
	lease := duration("leaseDuration", l.LeaseDuration, 15*time.Second)
	renew := duration("renewDeadline", l.RenewDeadline, 10*time.Second)
	duration("retryPeriod", l.RetryPeriod, 2*time.Second)
	if lease <= renew {
		errs = append(errs, field.Invalid(at.Child("leaseDuration"), lease.String(), "must be greater than `RenewDeadline`"))
	}
	if v := l.ResourceLock; v != nil && *v != "" && *v != "leases" {
		errs = append(errs, field.Invalid(at.Child("resourceLock"), *v, `resourceLock value must be "leases"`))
	}
	return errs
}

// setBackoff sets how long pods wait.
func (f *File) setBackoff(c *schedulerConfiguration) (errs field.ErrorList) {
	if c.PodInitialBackoffSeconds == nil && c.PodMaxBackoffSeconds == nil {
		return nil
	}
	first, most := int64(1), int64(10)
	if v := c.PodInitialBackoffSeconds; v != nil {
		first = *v
	}
	if v := c.PodMaxBackoffSeconds; v != nil {
		most = *v
	}
	at := field.NewPath("podInitialBackoffSeconds")
	if first <= 0 {
		errs = append(errs, field.Invalid(at, first, "must be greater than 0"))
	}
	at = field.NewPath("podMaxBackoffSeconds")
	switch {
	case most < first:
		errs = append(errs, field.Invalid(at, most, "must be greater than or equal to PodInitialBackoffSeconds"))
	case most > maxSeconds:
		errs = append(errs, field.Invalid(at, most, fmt.Sprintf("must be at most %d", maxSeconds)))
	}
	f.firstBackoff, f.maxBackoff = time.Duration(first)*time.Second, time.Duration(most)*time.Second
	return errs
}
