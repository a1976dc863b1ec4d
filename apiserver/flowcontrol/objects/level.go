package objects

import (
	"errors"
	"fmt"

	"github.com/planekit/planekit/apiserver/flowcontrol"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
)

// levelOf reads a level. The error names each wrong field.
func levelOf(object *flowcontrolv1.PriorityLevelConfiguration) (flowcontrol.Level, error) {
	level := flowcontrol.Level{Name: object.Name, UID: string(object.UID)}
	spec := &object.Spec
	var err error
	switch {
	case spec.Type == flowcontrolv1.PriorityLevelEnablementExempt && spec.Limited != nil:
		err = errors.New("spec.limited: must be absent if the type is Exempt")
	case spec.Type == flowcontrolv1.PriorityLevelEnablementExempt:
		level.Exempt = true
		if e := spec.Exempt; e != nil {
			level.Shares, level.LendablePercent = number(e.NominalConcurrencyShares), number(e.LendablePercent)
		}
	case spec.Type != flowcontrolv1.PriorityLevelEnablementLimited:
		err = fmt.Errorf("spec.type: %q is neither Exempt nor Limited", spec.Type)
	case spec.Exempt != nil:
		err = errors.New("spec.exempt: must be absent if the type is Limited")
	case spec.Limited == nil:
		err = errors.New("spec.limited: required if the type is Limited")
	default:
		err = readLimited(&level, spec.Limited)
	}
	if err != nil {
		return level, err
	}
	return level, level.Validate()
}

func readLimited(level *flowcontrol.Level, limited *flowcontrolv1.LimitedPriorityLevelConfiguration) error {
	if limited.NominalConcurrencyShares == nil {
		return errors.New("spec.limited.nominalConcurrencyShares: required")
	}
	level.Shares, level.LendablePercent = number(limited.NominalConcurrencyShares), number(limited.LendablePercent)
	if p := limited.BorrowingLimitPercent; p != nil {
		level.BorrowingLimitPercent = new(int(*p))
	}
	queuing := limited.LimitResponse.Queuing
	switch response := limited.LimitResponse.Type; {
	case response == flowcontrolv1.LimitResponseTypeReject && queuing == nil:
	case response == flowcontrolv1.LimitResponseTypeReject:
		return errors.New("spec.limited.limitResponse.queuing: must be absent if the type is Reject")
	case response != flowcontrolv1.LimitResponseTypeQueue:
		return fmt.Errorf("spec.limited.limitResponse.type: %q is neither Queue nor Reject", response)
	case queuing == nil:
		return errors.New("spec.limited.limitResponse.queuing: required if the type is Queue")
	case queuing.Queues < 1:
		// A Level without queues rejects, which is another type.
		return fmt.Errorf("spec.limited.limitResponse.queuing.queues: %d is less than 1", queuing.Queues)
	default:
		level.Queues, level.HandSize, level.QueueLength = int(queuing.Queues), int(queuing.HandSize), int(queuing.QueueLengthLimit)
	}
	return nil
}

func number(p *int32) int {
	if p == nil {
		return 0
	}
	return int(*p)
}

// levelObject writes a valid level as an object.
func levelObject(level *flowcontrol.Level) *flowcontrolv1.PriorityLevelConfiguration {
	out := &flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: kept(level.Name)}
	if level.Exempt {
		out.Spec = flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementExempt,
			Exempt: &flowcontrolv1.ExemptPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(level.Shares)), LendablePercent: new(int32(level.LendablePercent)),
			},
		}
		return out
	}
	limited := &flowcontrolv1.LimitedPriorityLevelConfiguration{
		NominalConcurrencyShares: new(int32(level.Shares)), LendablePercent: new(int32(level.LendablePercent)),
		LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
	}
	if p := level.BorrowingLimitPercent; p != nil {
		limited.BorrowingLimitPercent = new(int32(*p))
	}
	if level.Queues > 0 {
		limited.LimitResponse = flowcontrolv1.LimitResponse{
			Type: flowcontrolv1.LimitResponseTypeQueue,
			Queuing: &flowcontrolv1.QueuingConfiguration{
				Queues: int32(level.Queues), HandSize: int32(level.HandSize), QueueLengthLimit: int32(level.QueueLength),
			},
		}
	}
	out.Spec = flowcontrolv1.PriorityLevelConfigurationSpec{Type: flowcontrolv1.PriorityLevelEnablementLimited, Limited: limited}
	return out
}
