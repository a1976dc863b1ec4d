package kubeflags

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/audit"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
)

// auditing holds the flags of the audit log.
type auditing struct{ policy, log string }

func (a *auditing) add(flags *pflag.FlagSet) {
	flags.StringVar(&a.policy, "audit-policy-file", "", "file with the Policy of audit.k8s.io/v1 that says which requests are audited")
	flags.StringVar(&a.log, "audit-log-path", "", "file of the audit log; - means standard output")
}

func (a *auditing) check() error {
	if (a.policy == "") != (a.log == "") {
		return errors.New("--audit-policy-file and --audit-log-path go together")
	}
	return nil
}

// apply opens the audit log and starts to write it. It runs longer than the API server, so that the
// end of every request is in it.
func (a *auditing) apply(config *plane.Config, s *stack.Stack) error {
	if a.policy == "" {
		return nil
	}
	text, err := os.ReadFile(a.policy)
	if err != nil {
		return fmt.Errorf("--audit-policy-file: %w", err)
	}
	policy, err := audit.ParsePolicy(text)
	if err != nil {
		return fmt.Errorf("--audit-policy-file %s: %w", a.policy, err)
	}
	out := io.WriteCloser(os.Stdout)
	if a.log != "-" {
		if out, err = os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return fmt.Errorf("--audit-log-path: %w", err)
		}
		s.OnStop("audit file", out.Close)
	}
	log, err := audit.New(audit.Config{Policy: policy, Out: out, Log: config.Log.WithName("audit")})
	if err != nil {
		return err
	}
	s.Start("audit log", log.Run)
	before := config.Configure
	config.Configure = func(p *plane.Plane, server *apiserver.Config) error {
		server.Auditor = log
		if before == nil {
			return nil
		}
		return before(p, server)
	}
	return nil
}
