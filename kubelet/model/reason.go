package model

// Reasons for waiting containers, as in a pod's status.
const (
	ReasonContainerCreating    = "ContainerCreating"
	ReasonPodInitializing      = "PodInitializing"
	ReasonCrashLoopBackOff     = "CrashLoopBackOff"
	ReasonImagePullBackOff     = "ImagePullBackOff"
	ReasonErrImagePull         = "ErrImagePull"
	ReasonErrImageNeverPull    = "ErrImageNeverPull"
	ReasonImageInspectError    = "ImageInspectError"
	ReasonInvalidImageName     = "InvalidImageName"
	ReasonCreateConfigError    = "CreateContainerConfigError"
	ReasonCreateContainerError = "CreateContainerError"
	ReasonRunContainerError    = "RunContainerError"
	ReasonPostStartHookError   = "PostStartHookError"
)

// ReasonError is an error with its reason for a status.
type ReasonError struct {
	Reason string
	Err    error
}

func (e *ReasonError) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ReasonError) Unwrap() error { return e.Err }
