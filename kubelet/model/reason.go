package model

// Reasons for which a container waits, as a pod's status shows them.
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

// ReasonError is an error with the word for it that a status shows.
type ReasonError struct {
	Reason string
	Err    error
}

func (e *ReasonError) Error() string { return e.Reason + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *ReasonError) Unwrap() error { return e.Err }
