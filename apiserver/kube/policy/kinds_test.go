package policy_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
	"github.com/planekit/planekit/apiserver/kube/policy"
)

func TestKinds(t *testing.T) { kindtest.Run(t, policy.Resources()) }
