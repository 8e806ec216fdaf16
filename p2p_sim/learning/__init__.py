"""What a learner does with a release."""
