package certificates_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/certificates"
	"github.com/planekit/planekit/apiserver/kube/internal/kindtest"
)

func TestKinds(t *testing.T) { kindtest.Run(t, certificates.Resources()) }
